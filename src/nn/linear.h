// Linear: y = x W^T + b. Whether the weight is dense or quantized is decided by the keys that the checkpoint has;
// models never mention it.
#pragma once

#include <optional>

#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace redpoll::nn {

enum class Bias { kNone, kRequired };

class Linear {
 public:
  Linear(const Scope& scope, int in_features, int out_features, Bias bias = Bias::kNone)
      : weight_(scope.matrix(out_features, in_features)) {
    if (bias == Bias::kRequired) bias_ = scope.vector("bias", out_features);
  }

  /// x (tokens, in_features) -> (tokens, out_features)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    const mx::array y = weight_->multiply(x);
    return bias_ ? ctx.kernels.add_bias(y, *bias_) : y;
  }

 private:
  std::shared_ptr<const kernels::Matrix> weight_;  // (out_features, in_features)
  std::optional<mx::array> bias_;                  // (out_features)
};

}  // namespace redpoll::nn
