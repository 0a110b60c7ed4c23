// Granite: Llama with multipliers, of embedded tokens, of scores in place of the root of head_dim, of what each
// sublayer adds to the stream, and of logits. Follows mlx_lm/models/granite.py.
#include "models/decoder.h"
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {
namespace {

struct GraniteLayer {
  LlamaLayer layer;
  float residual_multiplier;

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    const mx::array attended = layer.self_attn(layer.input_layernorm(h, ctx), ctx);
    h += ctx.kernels.scale(attended, residual_multiplier);
    const mx::array computed = layer.mlp(layer.post_attention_layernorm(h, ctx), ctx);
    h += ctx.kernels.scale(computed, residual_multiplier);
  }

  [[nodiscard]] cache::LayerCache cache() const { return layer.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_granite(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.scores.scale = static_cast<float>(config.attention_multiplier);
  const auto make_layer = [&](const nn::Scope& scope, int layer) {
    attention.layer = layer;
    return GraniteLayer{LlamaLayer(scope, config, attention), static_cast<float>(config.residual_multiplier)};
  };
  return std::make_unique<DecoderModel<GraniteLayer>>(
      root, config, make_layer,
      DecoderOptions{.embed_scale = static_cast<float>(config.embedding_multiplier),
                     .logit_divisor = static_cast<float>(config.logits_scaling)});
}

}  // namespace redpoll::models
