// What GGUF metadata says of single architectures, as fields of config.json, and what it leaves to the reader.
#include <algorithm>

#include "checkpoint/gguf/config_writer.h"
#include "checkpoint/gguf/names.h"

namespace redpoll::checkpoint {
namespace {

using Need = ConfigWriter::Need;

void write_experts(ConfigWriter& writer) {
  writer.count("expert_count", "num_experts", Need::kRequired);
  writer.count("expert_used_count", "num_experts_per_tok", Need::kRequired);
  writer.count("expert_feed_forward_length", "moe_intermediate_size", Need::kRequired);
}

/// How many layers it takes until one sees all tokens, or for each layer whether it has a window.
void write_pattern(ConfigWriter& writer) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const GgufValue* value = writer.file().find(writer.full(kKey));
  const GgufArray* windows = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  if (windows == nullptr) return writer.count(kKey, "sliding_window_pattern", Need::kOptional);
  json::array types;
  for (std::uint64_t i = 0; i < windows->count && windows->is_number(); ++i) {
    types.emplace_back(windows->number(i) != 0 ? "sliding_attention" : "full_attention");
  }
  writer.set("layer_types", std::move(types));
}

}  // namespace

void write_gemma3(ConfigWriter& writer) {
  constexpr std::int64_t kLayersOf27B = 62;  // the size whose scores are not divided by the root of a head's size
  writer.count("attention.sliding_window", "sliding_window", Need::kRequired);
  write_pattern(writer);
  writer.real("rope.freq_base_swa", "rope_local_base_freq", Need::kOptional);
  writer.real("final_logit_softcapping", "final_logit_softcapping", Need::kOptional);
  writer.set("hidden_activation", "gelu_pytorch_tanh");
  writer.set("norm_weights_include_one", true);
  const std::int64_t heads = writer.written("num_attention_heads");
  if (writer.written("num_hidden_layers") == kLayersOf27B && heads > 0) {
    writer.set("query_pre_attn_scalar", writer.written("hidden_size") / heads);
  } else {
    writer.set("query_pre_attn_scalar", writer.written("head_dim"));
  }
}

void write_gpt_oss(ConfigWriter& writer) {
  write_experts(writer);
  writer.set("intermediate_size", writer.written("moe_intermediate_size"));
  if (const json::value* scaling = writer.config().if_contains("rope_scaling")) {
    json::object yarn = scaling->as_object();
    yarn["truncate"] = false;  // as published; metadata has no word for it
    writer.set("rope_scaling", std::move(yarn));
  }
}

void write_phi3(ConfigWriter& writer) {
  if (const auto dims = writer.integer("rope.dimension_count")) {
    const std::int64_t heads = writer.written("num_attention_heads");
    const std::int64_t own = writer.written("head_dim");
    const std::int64_t head_dim = own > 0 || heads == 0 ? own : writer.written("hidden_size") / heads;
    if (head_dim > 0) writer.set("partial_rotary_factor", static_cast<double>(*dims) / static_cast<double>(head_dim));
  }
  auto factors = writer.floats(kLongFactorsTensor);
  if (!factors) return;
  json::object scaling{{"rope_type", "longrope"}, {"long_factor", std::move(*factors)}};
  if (const auto original = writer.integer("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = *original;
  }
  if (const auto scale = writer.number("rope.scaling.attn_factor")) scaling["long_mscale"] = *scale;
  writer.set("rope_scaling", std::move(scaling));
}

void write_qwen3_moe(ConfigWriter& writer) {
  write_experts(writer);
  writer.set("norm_topk_prob", true);
  json::array dense;
  // No more layers than there are tensors, whatever the metadata says.
  const auto num_tensors = static_cast<std::int64_t>(writer.file().tensors().size());
  for (std::int64_t layer = 0; layer < std::min(writer.written("num_hidden_layers"), num_tensors); ++layer) {
    if (writer.tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight") == nullptr) dense.emplace_back(layer);
  }
  writer.set("mlp_only_layers", std::move(dense));
}

}  // namespace redpoll::checkpoint
