// Biases, gated activation, and rows by index.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"
#include "kernels/finite.h"

namespace redpoll::kernels::cpu {

namespace {

/// loop(x, y) over parts of both, which have the same shape.
mx::array for_each_pair(Context& context, const mx::array& x, const mx::array& y,
                        void (*loop)(const float* x, const float* y, std::int64_t size, float* out)) {
  const HostView xs(x);
  const HostView ys(y);
  HostArray out = make_array(x.shape());
  context.team.parallel_for(xs.size(), rows_per_part(1), [&](std::int64_t begin, std::int64_t end) {
    loop(xs.data() + begin, ys.data() + begin, end - begin, out.data + begin);
  });
  return std::move(out.array);
}

/// loop(x, number) over parts of x.
mx::array for_each(Context& context, const mx::array& x, float number,
                   void (*loop)(const float* x, float number, std::int64_t size, float* out)) {
  const HostView xs(x);
  HostArray out = make_array(x.shape());
  context.team.parallel_for(xs.size(), rows_per_part(1), [&](std::int64_t begin, std::int64_t end) {
    loop(xs.data() + begin, number, end - begin, out.data + begin);
  });
  return std::move(out.array);
}

}  // namespace

mx::array CpuKernels::gate_multiply(const mx::array& gate, const mx::array& up, GateActivation activation) const {
  const Loops& loops = context_->loops;
  const auto loop = [&] {
    switch (activation) {
      case GateActivation::kSigmoid: return loops.sigmoid_multiply;
      case GateActivation::kSilu:
      case GateActivation::kPreciseSilu: return loops.silu_multiply;
      case GateActivation::kClampedSilu: return loops.clamped_silu_multiply;
      case GateActivation::kGeluTanh:
      case GateActivation::kFusedGeluTanh: return loops.gelu_multiply;
      case GateActivation::kIdentity: break;
    }
    return loops.multiply;
  };
  return for_each_pair(*context_, gate, up, loop());
}

mx::array CpuKernels::add(const mx::array& x, const mx::array& y) const {
  return for_each_pair(*context_, x, y, context_->loops.add);
}

mx::array CpuKernels::scale(const mx::array& x, float factor) const {
  return for_each(*context_, x, factor, context_->loops.scale);
}

mx::array CpuKernels::gelu_tanh(const mx::array& x) const { return for_each(*context_, x, 1, context_->loops.gelu); }

mx::array CpuKernels::softcap(const mx::array& x, float cap) const {
  return for_each(*context_, x, cap, context_->loops.softcap);
}

mx::array CpuKernels::add_bias(const mx::array& x, const mx::array& bias) const {
  const HostView input(x);
  const HostView row(bias);
  const std::int64_t dim = row.size();
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(input.size() / dim, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      context_->loops.add(input.data() + i * dim, row.data(), dim, out.data + i * dim);
    }
  });
  return std::move(out.array);
}

mx::array CpuKernels::gate_rows(const mx::array& x, const mx::array& logits) const {
  const HostView input(x);
  const HostView gates(logits);
  const std::int64_t dim = input.size() / gates.size();
  HostArray out = make_array(x.shape());
  context_->team.parallel_for(gates.size(), rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float gate = 1.0F / (1.0F + std::exp(-gates.data()[i]));
      context_->loops.scale(input.data() + i * dim, gate, dim, out.data + i * dim);
    }
  });
  return std::move(out.array);
}

mx::array CpuKernels::take_columns(const mx::array& x, int first, int count) const {
  const HostView input(x);
  const std::int64_t dim = x.shape(1);
  HostArray out = make_array({x.shape(0), count});
  for (std::int64_t row = 0; row < x.shape(0); ++row) {
    std::copy_n(input.data() + row * dim + first, count, out.data + row * count);
  }
  return std::move(out.array);
}

mx::array CpuKernels::finite_rows(const mx::array& x) const {
  const HostView input(x);
  const std::int64_t dim = x.shape(1);
  std::vector<std::uint8_t> finite(static_cast<std::size_t>(x.shape(0)));
  context_->team.parallel_for(x.shape(0), rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::span row(input.data() + i * dim, static_cast<std::size_t>(dim));
      finite[static_cast<std::size_t>(i)] = all_finite(row) ? 1 : 0;
    }
  });
  return mx::array(finite.data(), {x.shape(0)}, mx::bool_);
}

mx::array CpuKernels::take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const {
  const HostView input(x);
  const std::int64_t dim = x.shape(1);
  HostArray out = make_array({static_cast<int>(rows.size()), x.shape(1)});
  float* to = out.data;
  for (const std::int32_t row : rows) to = std::copy_n(input.data() + row * dim, dim, to);
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
