// Norms: by the root mean square, alone and after a residual sum, and by mean and variance.
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {

mx::array CpuKernels::rms_norm(const mx::array& x, const mx::array& weight, float eps) const {
  const HostView input(x);
  const HostView scale(weight);
  const std::int64_t dim = scale.size();
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(input.size() / dim, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * dim; at < end * dim; at += dim) {
      context_->loops.rms_norm(input.data() + at, scale.data(), eps, static_cast<int>(dim), out.data + at);
    }
  });
  return std::move(out.array);
}

mx::array CpuKernels::layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias, float eps) const {
  const HostView input(x);
  const HostView scale(weight);
  const HostView shift(bias);
  const std::int64_t dim = scale.size();
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(input.size() / dim, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * dim; at < end * dim; at += dim) {
      float* row = out.data + at;
      context_->loops.center(input.data() + at, static_cast<int>(dim), row);
      context_->loops.rms_norm(row, scale.data(), eps, static_cast<int>(dim), row);
      context_->loops.add(row, shift.data(), dim, row);
    }
  });
  return std::move(out.array);
}

ResidualNorm CpuKernels::add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& weight,
                                      float eps) const {
  const HostView input(x);
  const HostView addend(residual);
  const HostView scale(weight);
  const std::int64_t dim = scale.size();
  HostArray sum = make_array(x.shape());
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(input.size() / dim, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * dim; at < end * dim; at += dim) {
      context_->loops.add(input.data() + at, addend.data() + at, dim, sum.data + at);
      context_->loops.rms_norm(sum.data + at, scale.data(), eps, static_cast<int>(dim), out.data + at);
    }
  });
  return {std::move(sum.array), std::move(out.array)};
}

}  // namespace redpoll::kernels::cpu
