#include "nn/gated_delta_net.h"

#include <mlx/ops.h>

namespace redpoll::nn {

GatedDeltaNet::GatedDeltaNet(const Scope& scope, const GatedDeltaOptions& options)
    : options_(options),
      in_proj_qkv_(scope["in_proj_qkv"], options.hidden_size, num_channels()),
      in_proj_z_(scope["in_proj_z"], options.hidden_size, options.num_value_heads * options.value_dim),
      in_proj_a_(scope["in_proj_a"], options.hidden_size, options.num_value_heads),
      in_proj_b_(scope["in_proj_b"], options.hidden_size, options.num_value_heads),
      out_proj_(scope["out_proj"], options.num_value_heads * options.value_dim, options.hidden_size),
      convolution_{.weight = scope["conv1d"].convolution(num_channels(), options.convolution_size),
                   .bias = std::nullopt,
                   .has_silu = true},
      delta_{.num_key_heads = options.num_key_heads,
             .num_value_heads = options.num_value_heads,
             .key_dim = options.key_dim,
             .value_dim = options.value_dim,
             .a_log = scope.vector("A_log", options.num_value_heads),
             .dt_bias = scope.vector("dt_bias", options.num_value_heads)},
      norm_(scope["norm"], options.value_dim, options.norm_eps) {}

int GatedDeltaNet::num_channels() const {
  return 2 * options_.num_key_heads * options_.key_dim + options_.num_value_heads * options_.value_dim;
}

cache::LayerCache GatedDeltaNet::cache() const {
  return {.kind = cache::CacheKind::kRecurrent,
          .conv_tokens = options_.convolution_size - 1,
          .conv_channels = num_channels(),
          .num_heads = options_.num_value_heads,
          .key_dim = options_.key_dim,
          .value_dim = options_.value_dim};
}

mx::array GatedDeltaNet::operator()(const mx::array& x, ForwardContext& ctx) const {
  const std::vector<mx::array> projected =
      Linear::apply_all({&in_proj_qkv_, &in_proj_z_, &in_proj_a_, &in_proj_b_}, x, ctx);
  kernels::StateStorage& states = ctx.states[static_cast<std::size_t>(options_.layer)];
  const mx::array qkv = ctx.kernels.short_convolution(projected[0], convolution_, states, ctx.batch);
  const mx::array y = ctx.kernels.gated_delta({.qkv = qkv, .a = projected[2], .b = projected[3]}, delta_, states,
                                              ctx.batch);  // (tokens, value heads * value_dim)
  const mx::array heads = mx::reshape(y, {x.shape(0), options_.num_value_heads, options_.value_dim});
  const mx::array normalized = mx::reshape(norm_(heads, ctx), y.shape());
  return out_proj_(ctx.kernels.gate_multiply(projected[1], normalized, kernels::GateActivation::kPreciseSilu), ctx);
}

}  // namespace redpoll::nn
