#include "kernels/cpu/host_view.h"

#include <mlx/ops.h>
#include <mlx/primitives.h>

#include <string_view>

namespace redpoll::kernels::cpu {
namespace {

bool is_readable(const mx::array& x, mx::Dtype dtype) {
  return x.is_available() && x.flags().row_contiguous && x.dtype() == dtype;
}

/// `x`, or the available array that `x` is a pending reshape of: the elements are the same.
mx::array look_through_reshape(const mx::array& x) {
  if (x.status() != mx::array::unscheduled || !x.has_primitive() || x.is_tracer()) return x;
  if (std::string_view(x.primitive().name()) != "Reshape") return x;
  return look_through_reshape(x.inputs().front());
}

mx::array readable(const mx::array& x, mx::Dtype dtype) {
  if (is_readable(x, dtype)) return x;
  mx::array source = look_through_reshape(x);
  if (is_readable(source, dtype)) return source;
  mx::array evaluated = x;
  evaluated.eval();  // in place, so that the next view of the same array is free
  if (is_readable(evaluated, dtype)) return evaluated;
  mx::array copy = mx::contiguous(mx::astype(x, dtype));
  copy.eval();
  return copy;
}

}  // namespace

HostView::HostView(const mx::array& x) : array_(readable(x, mx::float32)), data_(array_.data<float>()) {}

HostIds::HostIds(const mx::array& ids) : array_(readable(ids, mx::int32)) {}

}  // namespace redpoll::kernels::cpu
