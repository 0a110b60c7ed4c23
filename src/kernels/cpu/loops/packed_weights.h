// PackedWeights: how a weight matrix and the rows that it is multiplied with lie in memory, for the matmul loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_options.h"
#include "kernels/matrix.h"

namespace redpoll::kernels::cpu {

/// Panels that one pass of a matmul loop covers: a matrix is padded with zero rows to a multiple of that.
inline constexpr int kUnitPanels = 4;
/// The fewest and the most weights that share a scale.
inline constexpr int kLeastGroup = 16;
inline constexpr int kMostGroup = 128;
/// Most rows of x that one call of `matmul` takes.
inline constexpr int kMaxRows = 132;

/// A weight matrix repacked so that it streams: panels of `lanes` output rows, one after the other. A quantized panel
/// holds for each group `lanes` scales, as many biases (of `type`) and group_size * bits / 32 vectors of words; lane r
/// of vector j is the checkpoint's word j of that group in row r. A dense panel (bits = 0) holds for each input the
/// weights of its rows, of `type`.
struct PackedWeights {
  int lanes = 0;
  const std::byte* data = nullptr;
  std::size_t panel_bytes = 0;
  int in_features = 0;
  int bits = 0;
  int group_size = 0;
  WeightType type = WeightType::kF32;
};

/// One row of activations rounded to int8 for weights of 4 or 8 bits: in_features bytes in the order of the weights'
/// bytes, then a scale for each kInt8Group of them, then for each group of weights the sum of its activations.
template <typename Byte, typename Float>
struct BasicInt8Row {
  BasicInt8Row(const PackedWeights& w, Float* row)
      : values(reinterpret_cast<Byte*>(row)),
        scales(row + w.in_features / static_cast<int>(sizeof(float))),
        sums(scales + w.in_features / kInt8Group) {}

  Byte* values;
  Float* scales;
  Float* sums;
};
using Int8Row = BasicInt8Row<const std::int8_t, const float>;
using MutableInt8Row = BasicInt8Row<std::int8_t, float>;

/// Floats that one such row takes.
[[nodiscard]] constexpr std::size_t int8_row_floats(const PackedWeights& w) {
  return static_cast<std::size_t>(w.in_features / 4) + static_cast<std::size_t>(w.in_features / kInt8Group) +
         static_cast<std::size_t>(w.in_features / w.group_size);
}

/// Rows of x are cut into tiles as long as each other but for one row: where tile `index` begins.
[[nodiscard]] constexpr int first_of_row_tile(int num_rows, int num_tiles, int index) {
  return index * num_rows / num_tiles;
}

}  // namespace redpoll::kernels::cpu
