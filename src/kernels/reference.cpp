#include "kernels/reference.h"

#include <mlx/device.h>
#include <mlx/fast.h>
#include <mlx/ops.h>

#include <optional>
#include <utility>

#include "kernels/reference_kv.h"

namespace redpoll::kernels {

mx::array ReferenceKernels::rms_norm(const mx::array& x, const mx::array& weight, float eps) const {
  return mx::fast::rms_norm(x, weight, eps);
}

mx::array ReferenceKernels::layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias,
                                       float eps) const {
  return mx::fast::layer_norm(x, weight, bias, eps);
}

ResidualNorm ReferenceKernels::add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& weight,
                                            float eps) const {
  mx::array sum = add(x, residual);
  mx::array normalized = mx::fast::rms_norm(sum, weight, eps);
  return {std::move(sum), std::move(normalized)};
}

mx::array ReferenceKernels::add(const mx::array& x, const mx::array& y) const {
  if (x.dtype() != mx::float16) return mx::add(x, y);
  // The largest of Gemma 3's sums are too large for float16.
  const mx::array most(65'504.0F);
  const mx::array sum = mx::add(mx::astype(x, mx::float32), mx::astype(y, mx::float32));
  return mx::astype(mx::clip(sum, mx::negative(most), most), mx::float16);
}

mx::array ReferenceKernels::add_bias(const mx::array& x, const mx::array& bias) const { return mx::add(x, bias); }

mx::array ReferenceKernels::gate_multiply(const mx::array& gate, const mx::array& up, GateActivation activation) const {
  switch (activation) {
    case GateActivation::kSilu: return fused_.silu_multiply({gate, up})[0];
    case GateActivation::kPreciseSilu: return fused_.precise_silu_multiply({gate, up})[0];
    case GateActivation::kClampedSilu: return fused_.clamped_silu_multiply({gate, up})[0];
    case GateActivation::kGeluTanh: return mx::multiply(gelu_tanh(gate), up);
    case GateActivation::kFusedGeluTanh: return fused_.gelu_multiply({gate, up})[0];
    case GateActivation::kSigmoid: return mx::multiply(mx::sigmoid(gate), up);
    case GateActivation::kIdentity: break;
  }
  return mx::multiply(gate, up);
}

mx::array ReferenceKernels::scale(const mx::array& x, float factor) const {
  return mx::multiply(x, mx::array(factor, x.dtype()));
}

mx::array ReferenceKernels::divide(const mx::array& x, float divisor) const {
  return mx::divide(x, mx::array(divisor, x.dtype()));
}

mx::array ReferenceKernels::gelu_tanh(const mx::array& x) const { return fused_.gelu({x})[0]; }

mx::array ReferenceKernels::rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const {
  mx::array split = split_by_head(x, spec.head_dim);  // (tokens, heads, head_dim)
  const int heads = split.shape(1);
  if (spec.scale != 1) {
    const mx::Shape end{split.shape(0), heads, spec.dims};
    const mx::array scaled = mx::multiply(mx::slice(split, {0, 0, 0}, end), mx::array(spec.scale, x.dtype()));
    split = mx::slice_update(split, scaled, {0, 0, 0}, end);
  }
  std::optional<mx::array> periods;
  if (!spec.base) periods = mx::array(spec.periods.data(), {static_cast<int>(spec.periods.size())}, mx::float32);
  std::vector<mx::array> outputs;
  for (const BatchRow& row : batch.rows) {
    const mx::array own =
        mx::slice(split, {row.first_token, 0, 0}, {row.first_token + row.num_tokens, heads, spec.head_dim});
    const mx::array rotated =
        mx::fast::rope(mx::expand_dims(mx::transpose(own, {1, 0, 2}), 0), spec.dims, spec.interleaved, spec.base,
                       spec.position_scale, row.num_computed, periods);
    outputs.push_back(mx::transpose(mx::squeeze(rotated, 0), {1, 0, 2}));
  }
  return mx::reshape(outputs.size() == 1 ? outputs.front() : mx::concatenate(std::move(outputs), 0), x.shape());
}

/// 0 * x is NaN of what is not finite, and so is every sum with it.
mx::array ReferenceKernels::finite_rows(const mx::array& x) const {
  const mx::array zero(0.0F, x.dtype());
  return mx::equal(mx::sum(mx::multiply(x, zero), -1), zero);
}

mx::array ReferenceKernels::take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const {
  return mx::take(x, mx::array(rows.data(), {static_cast<int>(rows.size())}, mx::int32), 0);
}

mx::array ReferenceKernels::take_columns(const mx::array& x, int first, int count) const {
  return mx::slice(x, {0, first}, {x.shape(0), first + count});
}

}  // namespace redpoll::kernels
