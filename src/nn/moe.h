// SparseMoe: a router sends each token to a few of many gated MLPs.
#pragma once

#include <memory>
#include <string_view>

#include "nn/linear.h"

namespace redpoll::nn {

struct MoeOptions {
  int hidden_size = 0;
  int intermediate_size = 0;  // of each expert
  int num_experts = 0;
  kernels::RoutingSpec routing = {};
  kernels::GateActivation activation = kernels::GateActivation::kSilu;
  Bias bias = Bias::kNone;  // of the router and of experts
  std::string_view router = "gate";
  std::string_view stacked = "switch_mlp";  // where experts are that are stacked
};

/// Experts' "gate_proj", "up_proj" and "down_proj" are stacked, as MLX writes them, or apart in "experts.0",
/// "experts.1" and so on.
class SparseMoe {
 public:
  SparseMoe(const Scope& scope, const MoeOptions& options)
      : gate_(scope[options.router], options.hidden_size, options.num_experts, options.bias),
        routing_(options.routing) {
    const auto load = [&](std::string_view name, int out_features, int in_features) {
      const Scope stacked = scope[options.stacked][name];
      return stacked.has("weight") ? stacked.stacked_experts(options.num_experts, out_features, in_features)
                                   : scope["experts"].experts(name, options.num_experts, out_features, in_features);
    };
    experts_ = {.gate = load("gate_proj", options.intermediate_size, options.hidden_size),
                .up = load("up_proj", options.intermediate_size, options.hidden_size),
                .down = load("down_proj", options.hidden_size, options.intermediate_size),
                .activation = options.activation};
    if (options.bias == Bias::kNone) return;
    const auto load_bias = [&](std::string_view name, int size) {
      return scope[options.stacked][name].table("bias", options.num_experts, size);
    };
    experts_.gate_bias = load_bias("gate_proj", options.intermediate_size);
    experts_.up_bias = load_bias("up_proj", options.intermediate_size);
    experts_.down_bias = load_bias("down_proj", options.hidden_size);
  }

  /// x (tokens, hidden) -> (tokens, hidden)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const { return (*this)(x, x, ctx); }
  /// The same where the router sees something else than the experts.
  [[nodiscard]] mx::array operator()(const mx::array& seen, const mx::array& x, const ForwardContext& ctx) const {
    return ctx.kernels.run_experts(x, ctx.kernels.route(gate_(seen, ctx), routing_), experts_);
  }

 private:
  Linear gate_;
  kernels::RoutingSpec routing_;
  kernels::ExpertMlps experts_;
};

}  // namespace redpoll::nn
