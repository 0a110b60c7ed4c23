// What gated MLPs are told, and how a router chooses among many of them.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>

#include "kernels/matrix.h"

namespace redpoll::kernels {

enum class GateActivation {
  kIdentity,
  kSigmoid,
  kSilu,           // x / (1 + exp(-x))
  kPreciseSilu,    // the same, and its product, in float32 whatever the type
  kClampedSilu,    // min(x, 7) / (1 + exp(-1.702 min(x, 7))), and what it gates is clamped to -7..7 and gets 1 more
  kGeluTanh,       // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
  kFusedGeluTanh,  // the same, and its product, in one kernel: on a GPU the exact tier rounds otherwise then
};

/// The weights of a token's experts: the softmax of its logits over all experts, its share of that which the chosen
/// ones have together, or the softmax over these alone. The last two differ by rounding only.
enum class RoutingWeights { kSoftmax, kNormalizedSoftmax, kSoftmaxOfChosen };

/// How a router's logits become experts and their weights.
struct RoutingSpec {
  int top_k = 0;
  RoutingWeights weights = RoutingWeights::kNormalizedSoftmax;
  bool is_precise = true;                       // the softmax of narrow types is computed in float32
  std::optional<mx::array> expert_scales = {};  // (experts): what the weights are multiplied with at last
};

/// Which experts see each token. Which ones are chosen of those with the same logit is the kernel set's own rule.
struct Routing {
  mx::array experts;  // (tokens, top_k) int32
  mx::array weights;  // (tokens, top_k)
};

/// Gated MLPs: down(activation(gate(x)) * up(x)).
struct ExpertMlps {
  std::shared_ptr<const Experts> gate, up, down;
  std::optional<mx::array> gate_bias = {}, up_bias = {}, down_bias = {};  // (experts, out) each
  GateActivation activation = GateActivation::kSilu;
};

}  // namespace redpoll::kernels
