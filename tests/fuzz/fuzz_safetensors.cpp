// Any bytes as a safetensors file: an Error or tensors that lie within the bytes.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redpoll;
  checkpoint::ParameterMap parameters;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (!checkpoint::read_safetensors(bytes, nullptr, "input", parameters)) return 0;
  std::uint64_t total = 0;
  for (const std::string& name : parameters.names()) {
    const checkpoint::Tensor tensor = parameters.read(name).value();
    CHECK(checkpoint::array_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size(), "shape and bytes disagree");
    total += tensor.bytes.size();
  }
  CHECK(total <= size, "tensors overlap");
  return 0;
}
