// Dense float32, float16 and bfloat16 weights: repacking and reading back.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {
namespace {

std::size_t to_size(int n) { return static_cast<std::size_t>(n); }

/// IEEE half to single: the exponent is re-biased by a multiplication, which makes subnormals right too.
float widen_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t magnitude = half & 0x7fffU;
  auto value = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13U) * 0x1p112F);
  if (magnitude >= 0x7c00U) value = (magnitude << 13U) | 0x7f800000U;
  return std::bit_cast<float>(value | sign);
}

}  // namespace

float widen(const std::byte* element, WeightType type) {
  if (type == WeightType::kF32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, element, sizeof(half));
  if (type == WeightType::kF16) return widen_half(half);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
}

std::size_t dense_panel_bytes(const MatrixWeights& w, int lanes) {
  return to_size(w.in_features) * to_size(lanes) * element_bytes(w.type);
}

void pack_dense_panel(const MatrixWeights& w, int lanes, int index, std::byte* panel) {
  const std::size_t element = element_bytes(w.type);
  const std::size_t inputs = to_size(w.in_features);
  const std::size_t step = to_size(lanes) * element;
  const int first = index * lanes;
  const int rows = std::clamp(w.out_features - first, 0, lanes);
  std::memset(panel, 0, inputs * step);
  for (int lane = 0; lane < rows; ++lane) {
    const std::byte* row = w.weight.data() + to_size(first + lane) * inputs * element;
    std::byte* to = panel + to_size(lane) * element;
    for (std::size_t k = 0; k < inputs; ++k) std::memcpy(to + k * step, row + k * element, element);
  }
}

void unpack_dense_row(const PackedWeights& packed, int row, float* out) {
  const std::size_t element = element_bytes(packed.type);
  const std::byte* at =
      packed.data + to_size(row / packed.lanes) * packed.panel_bytes + to_size(row % packed.lanes) * element;
  const std::size_t step = to_size(packed.lanes) * element;
  for (int k = 0; k < packed.in_features; ++k, at += step) out[k] = widen(at, packed.type);
}

}  // namespace redpoll::kernels::cpu
