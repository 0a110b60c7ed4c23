// Linear: y = x W^T + b. Whether the weight is dense or quantized, and whether it stands alone or fused with others, is
// decided by the keys that the checkpoint has; models never mention it.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace redpoll::nn {

enum class Bias { kNone, kRequired };

/// The layer as rows of a larger one, which has no bias.
struct FusedRows {
  std::string_view name;  // "gate_up_proj"
  RowSlice slice;
};

struct LinearShape {
  int in_features = 0;
  int out_features = 0;
  Bias bias = Bias::kNone;
};

class Linear {
 public:
  Linear(const Scope& scope, int in_features, int out_features, Bias bias = Bias::kNone)
      : weight_(scope.matrix(out_features, in_features)) {
    if (bias == Bias::kRequired) bias_ = scope.vector("bias", out_features);
  }
  /// scope[name], or the rows of scope[fused.name] if the checkpoint has that.
  [[nodiscard]] static Linear alone_or_fused(const Scope& scope, std::string_view name, const FusedRows& fused,
                                             const LinearShape& shape) {
    const Scope whole = scope[fused.name];
    if (whole.has("weight")) return rows(whole, fused.slice, {shape.in_features, shape.out_features});
    return {scope[name], shape.in_features, shape.out_features, shape.bias};
  }
  /// Some rows of what the scope has, and of its bias.
  [[nodiscard]] static Linear rows(const Scope& scope, RowSlice slice, const LinearShape& shape) {
    Linear part(scope.matrix(shape.out_features, shape.in_features, slice));
    if (shape.bias == Bias::kRequired) part.bias_ = scope.vector("bias", shape.out_features, slice);
    return part;
  }

  /// x (tokens, in_features) -> (tokens, out_features)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    if (!bias_) return weight_->multiply(x);
    const kernels::LinearMap map{.weight = weight_.get(), .bias = &*bias_};
    return std::move(ctx.kernels.apply_all(x, {&map, 1}).front());
  }

  /// Some layers' results for the same x.
  [[nodiscard]] static std::vector<mx::array> apply_all(std::initializer_list<const Linear*> layers, const mx::array& x,
                                                        const ForwardContext& ctx) {
    std::vector<kernels::LinearMap> maps;
    maps.reserve(layers.size());
    for (const Linear* layer : layers) {
      maps.push_back({.weight = layer->weight_.get(), .bias = layer->bias_ ? &*layer->bias_ : nullptr});
    }
    return ctx.kernels.apply_all(x, maps);
  }

 private:
  explicit Linear(std::shared_ptr<const kernels::Matrix> weight) : weight_(std::move(weight)) {}

  std::shared_ptr<const kernels::Matrix> weight_;  // (out_features, in_features)
  std::optional<mx::array> bias_;                  // (out_features)
};

}  // namespace redpoll::nn
