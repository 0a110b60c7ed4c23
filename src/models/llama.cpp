// Llama 2 and 3, SmolLM2: pre-norm decoder, grouped-query attention, gated MLP; biases where the config says.
// Follows mlx_lm/models/llama.py.
#include "models/llama.h"

#include "models/decoder.h"
#include "models/registry.h"

namespace redpoll::models {

LlamaLayer::LlamaLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
    : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
      post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                               static_cast<float>(config.rms_norm_eps)),
      self_attn(scope["self_attn"], attention),
      mlp(scope["mlp"], config.hidden_size, config.intermediate_size,
          {.bias = config.mlp_bias ? nn::Bias::kRequired : nn::Bias::kNone}) {
  scope["self_attn"]["rotary_emb"].ignore();  // frequencies that old exporters wrote out
}

std::unique_ptr<Model> make_llama_decoder(const nn::Scope& root, const checkpoint::Config& config,
                                          const nn::LayerAttention& attention) {
  return std::make_unique<DecoderModel<LlamaLayer>>(
      root, config, [&](const nn::Scope& scope, int layer) { return LlamaLayer(scope, config, attention(layer)); });
}

std::unique_ptr<Model> make_llama_decoder(const nn::Scope& root, const checkpoint::Config& config,
                                          nn::AttentionOptions attention) {
  return make_llama_decoder(root, config, nn::LayerAttention([&](int layer) {
                              attention.layer = layer;
                              return attention;
                            }));
}

Result<std::unique_ptr<Model>> make_llama(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  return make_llama_decoder(root, config, std::move(attention));
}

}  // namespace redpoll::models
