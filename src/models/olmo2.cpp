// OLMo 2: no norm before a sublayer but one after it, and one over all heads of queries and of keys together. Follows
// mlx_lm/models/olmo2.py.
#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {
namespace {

struct Olmo2Layer {
  nn::RMSNorm post_attention_layernorm, post_feedforward_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  Olmo2Layer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        post_feedforward_layernorm(scope["post_feedforward_layernorm"], config.hidden_size,
                                   static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention),
        mlp(scope["mlp"], config.hidden_size, config.intermediate_size,
            {.bias = config.mlp_bias ? nn::Bias::kRequired : nn::Bias::kNone}) {}

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += post_attention_layernorm(self_attn(h.sum(ctx), ctx), ctx);
    h += post_feedforward_layernorm(mlp(h.sum(ctx), ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_olmo2(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.head_norm = nn::HeadNorm::kAllHeads;
  attention.norm_eps = static_cast<float>(config.rms_norm_eps);
  return std::make_unique<DecoderModel<Olmo2Layer>>(root, config, [&](const nn::Scope& scope, int layer) {
    attention.layer = layer;
    return Olmo2Layer(scope, config, attention);
  });
}

}  // namespace redpoll::models
