#include "nn/norm.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

namespace redpoll::nn {

RMSNorm::RMSNorm(const Scope& scope, int size, float eps, float weight_offset)
    : weight_(scope.vector("weight", size)), eps_(eps) {
  if (weight_offset == 0) return;
  weight_ = mx::add(weight_, mx::array(weight_offset, weight_.dtype()));
  mx::eval(weight_);
}

}  // namespace redpoll::nn
