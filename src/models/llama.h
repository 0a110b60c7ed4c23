// The Llama layer, which several families share but for details of attention, and the decoder made of it.
#pragma once

#include <memory>

#include "models/model.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace redpoll::models {

/// Pre-norm: x + attention(norm(x)), then x + mlp(norm(x)).
struct LlamaLayer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  nn::GatedMLP mlp;

  LlamaLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention);

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    h += mlp(post_attention_layernorm(h, ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

[[nodiscard]] std::unique_ptr<Model> make_llama_decoder(const nn::Scope& root, const checkpoint::Config& config,
                                                        const nn::LayerAttention& attention);
/// All layers with these attention options but for their index.
[[nodiscard]] std::unique_ptr<Model> make_llama_decoder(const nn::Scope& root, const checkpoint::Config& config,
                                                        nn::AttentionOptions attention);

}  // namespace redpoll::models
