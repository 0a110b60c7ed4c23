// The Gemma layer, a norm before and after each sublayer, which Gemma 2 and 3 share but for attention; norms store
// their weights less one, and embedded tokens are scaled by the root of their size.
#pragma once

#include <memory>

#include "models/model.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {

/// x + norm(attention(norm(x))), then x + norm(mlp(norm(x))).
struct GemmaLayer {
  nn::RMSNorm input_layernorm, post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  GemmaLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention);

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += post_attention_layernorm(self_attn(input_layernorm(h, ctx), ctx), ctx);
    h += post_feedforward_layernorm(mlp(pre_feedforward_layernorm(h, ctx), ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

/// What is added to the stored weights of norms.
[[nodiscard]] float gemma_norm_offset(const checkpoint::Config& config);

/// A decoder of Gemma layers whose embedded tokens are scaled by `embed_scale`.
[[nodiscard]] std::unique_ptr<Model> make_gemma_decoder(const nn::Scope& root, const checkpoint::Config& config,
                                                        float embed_scale, const nn::LayerAttention& attention);

/// What Gemma's attention has in all layers. Fails for an activation other than gelu in its tanh form, or for a rotary
/// embedding that is not known.
[[nodiscard]] Result<nn::AttentionOptions> gemma_attention_options(const checkpoint::Config& config);

}  // namespace redpoll::models
