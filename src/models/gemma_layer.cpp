#include "models/gemma_layer.h"

#include <cmath>

#include "models/decoder.h"
#include "nn/rope.h"

namespace redpoll::models {

float gemma_norm_offset(const checkpoint::Config& config) { return config.norm_weights_include_one ? 0 : 1; }

GemmaLayer::GemmaLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
    : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps),
                      gemma_norm_offset(config)),
      post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                               static_cast<float>(config.rms_norm_eps), gemma_norm_offset(config)),
      pre_feedforward_layernorm(scope["pre_feedforward_layernorm"], config.hidden_size,
                                static_cast<float>(config.rms_norm_eps), gemma_norm_offset(config)),
      post_feedforward_layernorm(scope["post_feedforward_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps), gemma_norm_offset(config)),
      self_attn(scope["self_attn"], attention),
      mlp(scope["mlp"], config.hidden_size, config.intermediate_size, {.activation = nn::GateActivation::kGeluTanh}) {}

std::unique_ptr<Model> make_gemma_decoder(const nn::Scope& root, const checkpoint::Config& config, float embed_scale,
                                          const nn::LayerAttention& attention) {
  return std::make_unique<DecoderModel<GemmaLayer>>(
      root, config, [&](const nn::Scope& scope, int layer) { return GemmaLayer(scope, config, attention(layer)); },
      DecoderOptions{.embed_scale = embed_scale,
                     .norm_weight_offset = gemma_norm_offset(config),
                     .logit_softcap = static_cast<float>(config.final_logit_softcapping)});
}

Result<nn::AttentionOptions> gemma_attention_options(const checkpoint::Config& config) {
  if (config.hidden_act != "gelu_pytorch_tanh") {
    return fail(ErrorCode::kUnsupported,
                "the model's config: hidden_activation '" + config.hidden_act +
                    "' is not supported; expected 'gelu_pytorch_tanh'",
                "hidden_activation");
  }
  ASSIGN_OR_RETURN(kernels::RopeSpec rope, nn::make_rope(config));
  const double scalar = config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar : config.head_dim;
  return nn::AttentionOptions{.hidden_size = config.hidden_size,
                              .num_heads = config.num_attention_heads,
                              .num_kv_heads = config.num_key_value_heads,
                              .head_dim = config.head_dim,
                              .rope = std::move(rope),
                              .qkv_bias = config.attention_bias ? nn::Bias::kRequired : nn::Bias::kNone,
                              .output_bias = config.attention_bias ? nn::Bias::kRequired : nn::Bias::kNone,
                              .norm_weight_offset = gemma_norm_offset(config),
                              .scores = {.scale = static_cast<float>(1 / std::sqrt(scalar)),
                                         .softcap = static_cast<float>(config.attn_logit_softcapping)}};
}

}  // namespace redpoll::models
