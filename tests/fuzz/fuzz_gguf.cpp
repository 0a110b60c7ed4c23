// Any bytes as a GGUF file, through everything that open_checkpoint does with one.
#include <cstddef>
#include <cstdint>

#include "base/json.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/tokenizer.h"
#include "checkpoint/quantization.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redpoll;
  const auto file = checkpoint::GgufFile::parse(std::as_bytes(std::span(data, size)), nullptr, "input");
  if (!file) return 0;
  if (const auto tokenizer = checkpoint::read_gguf_tokenizer(*file)) {
    CHECK(parse_json(tokenizer->json).has_value(), "the tokenizer is not JSON");
  }
  auto raw = checkpoint::read_gguf_config(*file);
  if (!raw) return 0;
  const auto config = checkpoint::config_from_json(std::move(*raw));
  if (!config) return 0;
  (void)checkpoint::parse_rope_scaling(*config);
  CHECK(checkpoint::QuantizationTable::parse(config->raw).has_value(), "our own quantization block is wrong");
  const auto parameters = checkpoint::read_gguf_parameters(*file, *config);
  if (!parameters) return 0;
  for (const std::string& name : parameters->names()) {
    const checkpoint::Tensor tensor = parameters->read(name).value();
    CHECK(checkpoint::array_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size(), "shape and bytes disagree");
  }
  return 0;
}
