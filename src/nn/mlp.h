// GatedMLP: down(silu(gate(x)) * up(x)), the feed-forward block of the Llama line.
#pragma once

#include "nn/linear.h"

namespace redpoll::nn {

class GatedMLP {
 public:
  GatedMLP(const Scope& scope, int hidden_size, int intermediate_size, Bias bias = Bias::kNone)
      : gate_proj_(scope["gate_proj"], hidden_size, intermediate_size, bias),
        up_proj_(scope["up_proj"], hidden_size, intermediate_size, bias),
        down_proj_(scope["down_proj"], intermediate_size, hidden_size, bias) {}

  /// x (tokens, hidden) -> (tokens, hidden)
  [[nodiscard]] mx::array operator()(const mx::array& x, const ForwardContext& ctx) const {
    const std::vector<mx::array> inner = Linear::apply_all({&gate_proj_, &up_proj_}, x, ctx);
    return down_proj_(ctx.kernels.silu_multiply(inner[0], inner[1]), ctx);
  }

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

}  // namespace redpoll::nn
