// PackedMatrix: a weight matrix repacked once, when it is made, into panels of output rows that stream through the
// matmul loops without horizontal sums (see PackedWeights). The checkpoint's bytes are not kept.
#pragma once

#include <memory>
#include <span>
#include <vector>

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

  [[nodiscard]] const PackedWeights& packed() const { return packed_; }
  /// Of the activations that it is multiplied with.
  [[nodiscard]] const MatmulLoops& loops() const { return loops_; }
  /// Output rows that one call of the matmul loop covers, and how often it is called for all.
  [[nodiscard]] int unit_rows() const { return kUnitPanels * packed_.lanes; }
  [[nodiscard]] int num_units() const { return num_units_; }

 private:
  std::shared_ptr<Context> context_;
  PackedWeights packed_;
  const MatmulLoops& loops_;
  int num_units_;
  std::size_t num_bytes_;
  std::shared_ptr<std::byte> bytes_;
};

/// out (num_rows, out_features) = x (num_rows, in_features) times the matrix's transpose.
struct MatmulJob {
  const PackedMatrix* matrix = nullptr;
  const float* x = nullptr;
  int num_rows = 0;
  float* out = nullptr;
};

/// Activations are rounded once for all jobs that want the same ones in the same form, and one fork serves all.
void multiply_jobs(Context& context, std::span<const MatmulJob> jobs);
/// matrix->multiply(x) of each matrix.
[[nodiscard]] std::vector<mx::array> multiply_packed(Context& context, const mx::array& x,
                                                     std::span<const PackedMatrix* const> matrices);

/// Bytes of a PackedMatrix whose panels have `lanes` rows.
[[nodiscard]] std::size_t packed_bytes(const MatrixWeights& weights, int lanes);
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
