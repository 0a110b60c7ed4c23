// GLM-4 (0414): a norm before and after each sublayer, half of each head rotated in neighbouring pairs, gate and up
// fused in the file. Follows mlx_lm/models/glm4.py.
#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/rope.h"

namespace redpoll::models {
namespace {

struct Glm4Layer {
  nn::RMSNorm input_layernorm, post_self_attn_layernorm, post_attention_layernorm, post_mlp_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  Glm4Layer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        post_self_attn_layernorm(scope["post_self_attn_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        post_mlp_layernorm(scope["post_mlp_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention),
        mlp(scope["mlp"], config.hidden_size, config.intermediate_size) {}

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += post_self_attn_layernorm(self_attn(input_layernorm(h, ctx), ctx), ctx);
    h += post_mlp_layernorm(mlp(post_attention_layernorm(h, ctx), ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_glm4(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention,
                   attention_options(config, {.partial_rotation = nn::PartialRotation::kAllowed}));
  if (config.attention_bias) attention.qkv_bias = nn::Bias::kRequired;
  attention.rope->interleaved = true;
  return std::make_unique<DecoderModel<Glm4Layer>>(root, config, [&](const nn::Scope& scope, int layer) {
    attention.layer = layer;
    return Glm4Layer(scope, config, attention);
  });
}

}  // namespace redpoll::models
