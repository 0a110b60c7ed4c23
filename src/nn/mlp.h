// GatedMLP: down(activation(gate(x)) * up(x)), the feed-forward block of the Llama line.
#pragma once

#include "nn/linear.h"

namespace redpoll::nn {

using kernels::GateActivation;

/// As checkpoints call them.
struct MlpNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};

struct MlpOptions {
  Bias bias = Bias::kNone;
  GateActivation activation = GateActivation::kSilu;
  MlpNames names = {};
};

/// "gate_proj" and "up_proj", or both in "gate_up_proj", gate first.
class GatedMLP {
 public:
  GatedMLP(const Scope& scope, int hidden_size, int intermediate_size, MlpOptions options = {})
      : gate_proj_(Linear::alone_or_fused(scope, options.names.gate, {"gate_up_proj", {0, 2 * intermediate_size}},
                                          {hidden_size, intermediate_size, options.bias})),
        up_proj_(Linear::alone_or_fused(scope, options.names.up,
                                        {"gate_up_proj", {intermediate_size, 2 * intermediate_size}},
                                        {hidden_size, intermediate_size, options.bias})),
        down_proj_(scope[options.names.down], intermediate_size, hidden_size, options.bias),
        activation_(options.activation) {}

  /// x (tokens, hidden) -> (tokens, hidden)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    const std::vector<mx::array> inner = Linear::apply_all({&gate_proj_, &up_proj_}, x, ctx);
    return down_proj_(ctx.kernels.gate_multiply(inner[0], inner[1], activation_), ctx);
  }

 private:
  Linear gate_proj_, up_proj_, down_proj_;
  GateActivation activation_;
};

}  // namespace redpoll::nn
