// Any text as config.json: an Error or numbers that a model can divide by.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "checkpoint/config.h"
#include "checkpoint/quantization.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redpoll;
  const auto config = checkpoint::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) return 0;
  if (const auto table = checkpoint::QuantizationTable::parse(config->raw)) {
    (void)table->spec_for("model.layers.0.self_attn.q_proj");
  }
  if (const auto rope = checkpoint::parse_rope_scaling(*config)) {
    CHECK(rope->factor > 0 && rope->high_freq_factor > rope->low_freq_factor, "a rope factor makes no sense");
  }
  if (checkpoint::require_decoder_fields(*config)) {
    CHECK(config->head_dim > 0 && config->num_key_value_heads > 0, "a size is missing");
    CHECK(config->num_attention_heads % config->num_key_value_heads == 0, "heads do not divide");
    CHECK(config->rms_norm_eps > 0 && config->rope_theta > 0, "a real number makes no sense");
  }
  return 0;
}
