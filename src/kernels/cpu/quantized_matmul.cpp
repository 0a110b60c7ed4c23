// Affine quantized weights of 2, 3, 4, 5, 6 or 8 bits: repacking and reading back.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {
namespace {

constexpr std::size_t kWordBytes = 4;

std::size_t to_size(int n) { return static_cast<std::size_t>(n); }

/// Of one row.
std::size_t group_bytes(int group_size, int bits, WeightType type) {
  return 2 * element_bytes(type) + to_size(group_size) * to_size(bits) / 8;
}

}  // namespace

std::size_t quantized_panel_bytes(const MatrixWeights& w, int lanes) {
  return to_size(lanes) * to_size(w.in_features / w.group_size) * group_bytes(w.group_size, w.bits, w.type);
}

void pack_quantized_panel(const MatrixWeights& w, int lanes, int index, std::byte* panel) {
  const std::size_t num_groups = to_size(w.in_features / w.group_size);
  const std::size_t group_words = to_size(w.group_size) * to_size(w.bits) / 32;
  const std::size_t element = element_bytes(w.type);
  const std::size_t width = to_size(lanes);
  const std::size_t stride = width * group_bytes(w.group_size, w.bits, w.type);
  const int first = index * lanes;
  const int rows = std::clamp(w.out_features - first, 0, lanes);
  std::memset(panel, 0, num_groups * stride);
  for (int lane = 0; lane < rows; ++lane) {
    const std::size_t row = to_size(first + lane);
    const std::byte* scale = w.scales.data() + row * num_groups * element;
    const std::byte* bias = w.biases.data() + row * num_groups * element;
    const std::byte* word = w.weight.data() + row * num_groups * group_words * kWordBytes;
    std::byte* group = panel;
    for (std::size_t g = 0; g < num_groups; ++g, group += stride) {
      std::memcpy(group + to_size(lane) * element, scale + g * element, element);
      std::memcpy(group + (width + to_size(lane)) * element, bias + g * element, element);
      std::byte* words = group + 2 * width * element + to_size(lane) * kWordBytes;
      for (std::size_t j = 0; j < group_words; ++j, word += kWordBytes) {
        std::memcpy(words + j * width * kWordBytes, word, kWordBytes);
      }
    }
  }
}

void unpack_quantized_row(const PackedWeights& packed, int row, float* out) {
  const std::size_t width = to_size(packed.lanes);
  const std::size_t lane = to_size(row) % width;
  const std::size_t element = element_bytes(packed.type);
  const std::size_t stride = width * group_bytes(packed.group_size, packed.bits, packed.type);
  const std::uint64_t mask = (std::uint64_t{1} << static_cast<unsigned>(packed.bits)) - 1;
  const std::byte* group = packed.data + to_size(row) / width * packed.panel_bytes;
  for (int k = 0; k < packed.in_features; k += packed.group_size, group += stride) {
    const float scale = widen(group + lane * element, packed.type);
    const float bias = widen(group + (width + lane) * element, packed.type);
    const std::byte* words = group + 2 * width * element + lane * kWordBytes;
    std::uint64_t pending = 0;  // bits read and not yet used, lowest first
    int num_pending = 0;
    for (int i = 0; i < packed.group_size; ++i) {
      if (num_pending < packed.bits) {
        std::uint32_t word = 0;
        std::memcpy(&word, words, kWordBytes);
        words += width * kWordBytes;
        pending |= std::uint64_t{word} << static_cast<unsigned>(num_pending);
        num_pending += 32;
      }
      *out++ = scale * static_cast<float>(pending & mask) + bias;
      pending >>= static_cast<unsigned>(packed.bits);
      num_pending -= packed.bits;
    }
  }
}

}  // namespace redpoll::kernels::cpu
