// Phi-3 and Phi-4-mini: Llama whose projections are fused in the file, some with a window, a partial rotation or
// longrope. Follows mlx_lm/models/phi3.py but for the window, which that lacks and transformers' Phi3 has.
#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {
namespace {

struct Phi3Layer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  Phi3Layer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention),
        mlp(scope["mlp"], config.hidden_size, config.intermediate_size, nn::FusedGateUp{}) {}

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    h += mlp(post_attention_layernorm(h, ctx), ctx);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> make_phi3(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(
      nn::AttentionOptions attention,
      attention_options(config, {.partial_rotation = nn::PartialRotation::kAllowed, .has_window_in_all_layers = true}));
  attention.projections = nn::Projections::kFused;
  return std::make_unique<DecoderModel<Phi3Layer>>(root, config, [&](const nn::Scope& scope, int layer) {
    attention.layer = layer;
    return Phi3Layer(scope, config, attention);
  });
}

}  // namespace redpoll::models
