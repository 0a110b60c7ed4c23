// LFM2: layers of a short, gated convolution, and some of attention; both before a gated MLP. Follows
// mlx_lm/models/lfm2.py.
#include <mlx/ops.h>

#include <optional>

#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {
namespace {

/// y = out(c * convolution(b * x)), where b, c and x are projections of the input.
struct ShortConvolution {
  int layer, channels;
  nn::Linear b_proj, c_proj, x_proj, out_proj;
  kernels::ConvolutionSpec convolution;

  ShortConvolution(const nn::Scope& scope, const checkpoint::Config& config, int layer_index)
      : layer(layer_index),
        channels(config.hidden_size),
        b_proj(projection(scope, config, 0)),
        c_proj(projection(scope, config, 1)),
        x_proj(projection(scope, config, 2)),
        out_proj(scope["out_proj"], channels, channels, bias_of(config)),
        convolution{.weight = scope["conv"].convolution(channels, config.conv_L_cache), .bias = std::nullopt} {
    if (config.conv_bias) convolution.bias = scope["conv"].vector("bias", channels);
  }

  static nn::Bias bias_of(const checkpoint::Config& config) {
    return config.conv_bias ? nn::Bias::kRequired : nn::Bias::kNone;
  }
  static nn::Linear projection(const nn::Scope& scope, const checkpoint::Config& config, int index) {
    const int size = config.hidden_size;
    return nn::Linear::rows(scope["in_proj"], {.first = index * size, .of = 3 * size}, {size, size, bias_of(config)});
  }

  [[nodiscard]] mx::array operator()(const mx::array& input, nn::ForwardContext& ctx) const {
    const std::vector<mx::array> parts = nn::Linear::apply_all({&b_proj, &c_proj, &x_proj}, input, ctx);
    const mx::array gated = ctx.kernels.gate_multiply(parts[0], parts[2], kernels::GateActivation::kIdentity);
    kernels::StateStorage& states = ctx.states[static_cast<std::size_t>(layer)];
    const mx::array sums = ctx.kernels.short_convolution(gated, convolution, states, ctx.batch);
    return out_proj(ctx.kernels.gate_multiply(parts[1], sums, kernels::GateActivation::kIdentity), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const {
    return {.kind = cache::CacheKind::kRecurrent,
            .conv_tokens = convolution.weight.shape(0) - 1,
            .conv_channels = channels};
  }
};

struct Lfm2Layer {
  nn::RMSNorm operator_norm, ffn_norm;
  std::optional<nn::Attention> self_attn;
  std::optional<ShortConvolution> conv;
  nn::GatedMLP feed_forward;

  Lfm2Layer(const nn::Scope& scope, const checkpoint::Config& config)
      : operator_norm(scope["operator_norm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        ffn_norm(scope["ffn_norm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        feed_forward(scope["feed_forward"], config.hidden_size, feed_forward_size(config),
                     {.names = {.gate = "w1", .up = "w3", .down = "w2"}}) {}

  static int feed_forward_size(const checkpoint::Config& config) {
    int size = config.intermediate_size;
    if (!config.block_auto_adjust_ff_dim) return size;
    size = static_cast<int>(std::min(config.block_ffn_dim_multiplier * (2 * size / 3), 1e8));
    return (size + config.block_multiple_of - 1) / config.block_multiple_of * config.block_multiple_of;
  }

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    const mx::array x = operator_norm(h, ctx);
    h += self_attn ? (*self_attn)(x, ctx) : (*conv)(x, ctx);
    h += feed_forward(ffn_norm(h, ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn ? self_attn->cache() : conv->cache(); }
};

}  // namespace

void complete_lfm2(checkpoint::Config& config) {
  if (!gives(config, "rope_theta")) config.rope_theta = 1e6;
}

Result<std::unique_ptr<Model>> make_lfm2(const nn::Scope& root, const checkpoint::Config& config) {
  const auto has_attention = [&](int layer) {
    return std::ranges::find(config.full_attn_idxs, layer) != config.full_attn_idxs.end();
  };
  ASSIGN_OR_RETURN(const std::vector<bool> is_recurrent,
                   recurrent_layers(config, "conv", [&](int layer) { return !has_attention(layer); }));
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config, {.has_recurrent_layers = true}));
  attention.head_norm = nn::HeadNorm::kEachHead;
  attention.norm_eps = static_cast<float>(config.rms_norm_eps);
  attention.names = {.output = "out_proj", .q_norm = "q_layernorm", .k_norm = "k_layernorm"};
  const auto make_layer = [&](const nn::Scope& scope, int layer) {
    Lfm2Layer made(scope, config);
    if (is_recurrent[static_cast<std::size_t>(layer)]) {
      made.conv.emplace(scope["conv"], config, layer);
    } else {
      attention.layer = layer;
      made.self_attn.emplace(scope["self_attn"], attention);
    }
    return made;
  };
  return std::make_unique<DecoderModel<Lfm2Layer>>(root, config, make_layer,
                                                   DecoderOptions{.norm_name = "embedding_norm"});
}

}  // namespace redpoll::models
