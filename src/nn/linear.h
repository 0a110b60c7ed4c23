// Linear: y = x W^T + b. Whether the weight is dense or quantized is decided by the keys that the checkpoint has;
// models never mention it.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

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
  /// Some outputs of a layer that the checkpoint keeps fused with others, without a bias.
  Linear(const Scope& scope, int in_features, int out_features, RowSlice slice)
      : weight_(scope.matrix(out_features, in_features, slice)) {}

  /// x (tokens, in_features) -> (tokens, out_features)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    return add_bias(weight_->multiply(x), ctx);
  }

  /// Some layers' results for the same x.
  [[nodiscard]] static std::vector<mx::array> apply_all(std::initializer_list<const Linear*> layers, const mx::array& x,
                                                        const ForwardContext& ctx) {
    std::vector<const kernels::Matrix*> weights;
    weights.reserve(layers.size());
    for (const Linear* layer : layers) weights.push_back(layer->weight_.get());
    std::vector<mx::array> results = ctx.kernels.multiply_all(x, weights);
    auto result = results.begin();
    for (const Linear* layer : layers) {
      *result = layer->add_bias(*result, ctx);
      ++result;
    }
    return results;
  }

 private:
  [[nodiscard]] mx::array add_bias(const mx::array& y, const ForwardContext& ctx) const {
    return bias_ ? ctx.kernels.add_bias(y, *bias_) : y;
  }

  std::shared_ptr<const kernels::Matrix> weight_;  // (out_features, in_features)
  std::optional<mx::array> bias_;                  // (out_features)
};

}  // namespace redpoll::nn
