// SparseMoe: a router sends each token to a few of many gated MLPs.
#pragma once

#include <memory>
#include <string_view>

#include "nn/linear.h"

namespace redpoll::nn {

/// How "gate_up_proj" holds the rows of both.
enum class FusedOrder { kGateFirst, kInterleaved };

struct MoeOptions {
  int hidden_size = 0;
  int intermediate_size = 0;  // of each expert
  int num_experts = 0;
  kernels::RoutingSpec routing = {};
  kernels::GateActivation activation = kernels::GateActivation::kSilu;
  Bias bias = Bias::kNone;  // of the router and of experts
  std::string_view router = "gate";
  std::string_view stacked = "switch_mlp";  // where experts are that are stacked
  FusedOrder fused_order = FusedOrder::kGateFirst;
};

/// Experts' "gate_proj", "up_proj" and "down_proj" are stacked, as MLX writes them, or apart in "experts.0",
/// "experts.1" and so on, or tensors "gate_up_proj" and "down_proj" of "experts", as Hugging Face has them.
class SparseMoe {
 public:
  SparseMoe(const Scope& scope, const MoeOptions& options);

  /// x (tokens, hidden) -> (tokens, hidden)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const { return (*this)(x, x, ctx); }
  /// The same where the router sees something else than the experts.
  [[nodiscard]] mx::array operator()(const mx::array& seen, const mx::array& x, const ForwardContext& ctx) const {
    return ctx.kernels.run_experts(x, ctx.kernels.route(gate_(seen, ctx), routing_), experts_);
  }

 private:
  void load_fused(const Scope& scope, const MoeOptions& options);
  void load_each(const Scope& scope, const MoeOptions& options);

  Linear gate_;
  kernels::RoutingSpec routing_;
  kernels::ExpertMlps experts_;
};

}  // namespace redpoll::nn
