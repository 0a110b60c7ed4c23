// Tensors of a GGUF file in the layouts that the rest of the program reads: dense, or MLX's affine quantization.
// Internal to checkpoint/.
//
// MLX keeps a matrix as packed integers q, lowest bits first in little-endian 32-bit words, with a scale s and a bias b
// for each group of inputs: w = s q + b. Every block format here is of this form already, so nothing is rounded. Groups
// are of 32 inputs but for Q6_K, which has 16, a size that MLX itself lacks:
//
//   Q4_0  w = d (q - 8)          4 bits   s = d        b = -8 d
//   Q4_1  w = d q + m            4 bits   s = d        b = m
//   Q5_0  w = d (q - 16)         5 bits   s = d        b = -16 d
//   Q5_1  w = d q + m            5 bits   s = d        b = m
//   Q8_0  w = d q, q signed      8 bits   s = d        b = -128 d, stored q + 128
//   Q4_K  w = d sc q - dmin mn   4 bits   s = d sc     b = -dmin mn
//   Q5_K  as Q4_K                5 bits
//   Q6_K  w = d sc (q - 32)      6 bits   s = d sc     b = -32 d sc
//   MXFP4 w = 2^e f, f of E2M1   8 bits   s = 2^e / 2  b = -6 2^e, stored 2 f + 12
//
// Scales and biases of a tensor are stored as F16 if all of them are exact there (always so for the first five unless d
// is huge), else as F32.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>

#include "checkpoint/gguf/file.h"
#include "checkpoint/tensor.h"

namespace redpoll::checkpoint {

struct AffineShape {
  int bits = 0;
  int group_size = 0;

  friend auto operator<=>(const AffineShape&, const AffineShape&) = default;
};

/// The affine form of a type; 0 bits for types that become dense tensors.
[[nodiscard]] AffineShape affine_shape(std::uint32_t gguf_type);

struct AffineTensors {
  Tensor weight;  // (..., rows, columns * bits / 32) U32
  Tensor scales;  // (..., rows, columns / group_size)
  Tensor biases;  // (..., rows, columns / group_size)
};

/// Which row of the file becomes row i. llama-type files interleave the two rotary halves of each query and key head:
/// (heads, dim / 2, 2) in the file is (heads, 2, dim / 2) in Hugging Face's order.
struct RowOrder {
  std::int64_t rows = 0;   // of all matrices together, where a tensor has several
  std::int64_t heads = 0;  // 0: as in the file; otherwise rows is a multiple of 2 * heads

  [[nodiscard]] std::int64_t source(std::int64_t row) const {
    if (heads == 0) return row;
    const std::int64_t dim = rows / heads;
    const std::int64_t in_head = row % dim;
    return row - in_head + in_head % (dim / 2) * 2 + in_head / (dim / 2);
  }
};

/// Runs work(i) for each i below `count`, on any threads and in any order, and returns when all are done. Work does not
/// throw.
using RunAll = std::function<void(int count, const std::function<void(int)>& work)>;

/// For types whose affine form has bits; the tensor is a matrix, or several, whose bytes are complete. About a second
/// per three gigabytes and core.
[[nodiscard]] AffineTensors repack_affine(const GgufTensor& tensor, const RowOrder& order, const RunAll& run_all);

/// For the other types. A view of the file where nothing changes.
[[nodiscard]] Tensor repack_dense(const GgufTensor& tensor, const RowOrder& order,
                                  const std::shared_ptr<const void>& storage);

}  // namespace redpoll::checkpoint
