// The order of operands is mlx-lm's: it decides which product and which sum a compiler makes one.
#include "kernels/fused_operations.h"

#include <mlx/compile.h>
#include <mlx/device.h>
#include <mlx/ops.h>

#include <cmath>
#include <numbers>

namespace redpoll::kernels {
namespace {

using Arrays = std::vector<mx::array>;

mx::array silu(const mx::array& x) { return mx::multiply(x, mx::sigmoid(x)); }

mx::array gelu_of(const mx::array& x) {
  const auto constant = [&](double value) { return mx::array(static_cast<float>(value), x.dtype()); };
  const mx::array cube = mx::power(x, constant(3));
  const mx::array inner =
      mx::multiply(constant(std::sqrt(2 / std::numbers::pi)), mx::add(x, mx::multiply(constant(0.044715), cube)));
  return mx::multiply(mx::multiply(constant(0.5), x), mx::add(constant(1), mx::tanh(inner)));
}

Arrays gelu(const Arrays& inputs) { return {gelu_of(inputs[0])}; }

Arrays gelu_multiply(const Arrays& inputs) { return {mx::multiply(gelu_of(inputs[0]), inputs[1])}; }

Arrays silu_multiply(const Arrays& inputs) { return {mx::multiply(silu(inputs[0]), inputs[1])}; }

Arrays precise_silu_multiply(const Arrays& inputs) {
  const auto& up = inputs[1];
  const mx::array product = mx::multiply(silu(mx::astype(inputs[0], mx::float32)), mx::astype(up, mx::float32));
  return {mx::astype(product, up.dtype())};
}

Arrays clamped_silu_multiply(const Arrays& inputs) {
  const auto& gate = inputs[0];
  const auto& up = inputs[1];
  const mx::array limit(7.0F, gate.dtype());
  const mx::array low = mx::minimum(gate, limit);
  const mx::array gated = mx::add(mx::clip(up, mx::negative(limit), limit), mx::array(1.0F, up.dtype()));
  return {mx::multiply(gated, mx::multiply(low, mx::sigmoid(mx::multiply(mx::array(1.702F, low.dtype()), low))))};
}

Arrays delta_decay(const Arrays& inputs) {
  const mx::array rate = mx::add(inputs[1], inputs[2]);
  const mx::array softplus = mx::logaddexp(rate, mx::array(0.0F, rate.dtype()));
  return {mx::exp(mx::multiply(mx::negative(mx::exp(mx::astype(inputs[0], mx::float32))), softplus))};
}

Arrays delta_step(const Arrays& inputs) {
  const auto& q = inputs[0];
  const mx::array k = mx::expand_dims(inputs[1], 1);
  const auto& v = inputs[2];
  mx::array memory = mx::multiply(inputs[5], mx::expand_dims(inputs[3], {1, 2}));
  const mx::array held = mx::sum(mx::multiply(memory, k), -1);
  const mx::array delta = mx::multiply(mx::subtract(v, held), mx::expand_dims(inputs[4], 1));
  memory = mx::add(memory, mx::multiply(k, mx::expand_dims(delta, 2)));
  const mx::array y = mx::sum(mx::multiply(memory, mx::expand_dims(q, 1)), -1);
  return {mx::astype(y, q.dtype()), memory};
}

/// Whether it is compiled once for all shapes, or anew for each.
enum class Shapes { kAny, kEach };

FusedOperations::Operation fused(Arrays (*expression)(const Arrays&), Shapes shapes) {
  if (mx::default_device() == mx::Device::cpu) return expression;  // MLX would call g++
  return mx::compile(expression, shapes == Shapes::kAny);
}

}  // namespace

FusedOperations::FusedOperations()
    : gelu(fused(kernels::gelu, Shapes::kAny)),
      gelu_multiply(fused(kernels::gelu_multiply, Shapes::kAny)),
      silu_multiply(fused(kernels::silu_multiply, Shapes::kAny)),
      precise_silu_multiply(fused(kernels::precise_silu_multiply, Shapes::kAny)),
      clamped_silu_multiply(fused(kernels::clamped_silu_multiply, Shapes::kAny)),
      delta_decay(fused(kernels::delta_decay, Shapes::kAny)),
      delta_step(fused(kernels::delta_step, Shapes::kEach)) {}

}  // namespace redpoll::kernels
