// Weights of small floats with a scale for each block: mxfp4 and mxfp8 (OCP Microscaling Formats 1.0) and nvfp4, as MLX
// stores them. They become what kernels multiply, without a change of any value: 4-bit floats with a power of two as
// scale become integers with that scale, the others bfloat16.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/matrix.h"

namespace redpoll::nn {

struct BlockFloats {
  std::string_view mode;  // "mxfp4", "mxfp8" or "nvfp4"
  int rows = 0;
  int columns = 0;
  std::span<const std::byte> weight;  // (rows, columns) packed, lowest bits first
  std::span<const std::byte> scales;  // (rows, columns / block), a byte each
};

/// The blocks of a mode, and the bits of a weight; 0 for a mode that is none of these.
[[nodiscard]] int block_size(std::string_view mode);
[[nodiscard]] int block_bits(std::string_view mode);

[[nodiscard]] kernels::WeightFormat weight_format(std::string_view mode);

[[nodiscard]] kernels::MatrixWeights widened(const BlockFloats& floats);

}  // namespace redpoll::nn
