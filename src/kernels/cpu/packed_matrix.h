// PackedMatrix: a weight matrix repacked once, when it is made, into panels of output rows that stream through the
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
  /// Rows rounded to int8, one Int8Row each.
  [[nodiscard]] HostArray quantize(const float* x, int rows) const;

  std::shared_ptr<Context> context_;
  PackedWeights packed_;
  bool int8_;      // activations are rounded
  int unit_rows_;  // output rows that one call of the matmul loop covers
  int num_units_;
  std::size_t num_bytes_;
  AlignedBytes bytes_;
};

/// Bytes of one panel of `lanes` rows, in the layouts of PackedWeights.
[[nodiscard]] std::size_t quantized_panel_bytes(const MatrixWeights& weights, int lanes);
[[nodiscard]] std::size_t dense_panel_bytes(const MatrixWeights& weights, int lanes);

/// Fills `panel` with rows [lanes * index, + lanes); rows beyond the matrix become zeros.
void pack_quantized_panel(const MatrixWeights& weights, int lanes, int index, std::byte* panel);
void pack_dense_panel(const MatrixWeights& weights, int lanes, int index, std::byte* panel);

/// One row, dequantized as scale * q + bias, to in_features floats.
void unpack_quantized_row(const PackedWeights& packed, int row, float* out);
void unpack_dense_row(const PackedWeights& packed, int row, float* out);

/// One element of `type`, widened.
[[nodiscard]] float widen(const std::byte* element, WeightType type);
[[nodiscard]] constexpr std::size_t element_bytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }

}  // namespace redpoll::kernels::cpu
