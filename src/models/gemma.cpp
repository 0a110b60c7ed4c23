// Gemma: Llama with gelu in its tanh form, norms that store their weights less one, and embedded tokens scaled by the
// root of their size. Follows mlx_lm/models/gemma.py but for gelu, which is by erf there and by tanh in transformers'
// Gemma, whatever the config's hidden_act says.
#include <cmath>

#include "models/decoder.h"
#include "models/gemma_layer.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {
namespace {

struct Gemma1Layer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  Gemma1Layer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps),
                        gemma_norm_offset(config)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps), gemma_norm_offset(config)),
        self_attn(scope["self_attn"], attention),
        mlp(scope["mlp"], config.hidden_size, config.intermediate_size, {.activation = nn::GateActivation::kGeluTanh}) {
  }

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    h += mlp(post_attention_layernorm(h, ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_gemma(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config, {.activation = config.hidden_act}));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  return std::make_unique<DecoderModel<Gemma1Layer>>(
      root, config,
      [&](const nn::Scope& scope, int layer) {
        attention.layer = layer;
        return Gemma1Layer(scope, config, attention);
      },
      DecoderOptions{.embed_scale = std::sqrt(static_cast<float>(config.hidden_size)),
                     .norm_weight_offset = gemma_norm_offset(config)});
}

}  // namespace redpoll::models
