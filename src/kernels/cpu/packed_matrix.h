// PackedMatrix: a weight matrix repacked once, when it is made, into panels of 8 output rows that stream through the
// matmul loops without horizontal sums (see PackedWeights). The checkpoint's bytes are not kept.
#pragma once

#include <memory>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace redpoll::kernels::cpu {

class PackedMatrix final : public Matrix {
 public:
  PackedMatrix(std::shared_ptr<Context> context, const MatrixWeights& weights);

  [[nodiscard]] mx::array multiply(const mx::array& x) const override;
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override;
  [[nodiscard]] std::size_t num_bytes() const override { return num_bytes_; }

 private:
  std::shared_ptr<Context> context_;
  PackedWeights packed_;
  int num_units_;
  std::size_t num_bytes_;
  AlignedBytes bytes_;
};

/// Bytes of one panel of 8 rows, in the layouts of PackedWeights.
[[nodiscard]] std::size_t quantized_panel_bytes(const MatrixWeights& weights);
[[nodiscard]] std::size_t dense_panel_bytes(const MatrixWeights& weights);

/// Fills `panel` with rows [8 * index, 8 * index + 8); rows beyond the matrix become zeros.
void pack_quantized_panel(const MatrixWeights& weights, int index, std::byte* panel);
void pack_dense_panel(const MatrixWeights& weights, int index, std::byte* panel);

/// One row, dequantized as scale * q + bias, to in_features floats.
void unpack_quantized_row(const PackedWeights& packed, int row, float* out);
void unpack_dense_row(const PackedWeights& packed, int row, float* out);

/// One element of `type`, widened.
[[nodiscard]] float widen(const std::byte* element, WeightType type);
[[nodiscard]] constexpr std::size_t element_bytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }

}  // namespace redpoll::kernels::cpu
