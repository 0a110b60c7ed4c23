// StarCoder2: norms by mean and variance, an MLP without a gate, biases everywhere, a window in all layers where the
// config names one. Follows transformers' Starcoder2; mlx-lm has no window, and takes gelu by erf.
#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"

namespace redpoll::models {
namespace {

struct Starcoder2Layer {
  nn::LayerNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  nn::Linear c_fc, c_proj;

  Starcoder2Layer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention),
        c_fc(scope["mlp"]["c_fc"], config.hidden_size, config.intermediate_size, attention.output_bias),
        c_proj(scope["mlp"]["c_proj"], config.intermediate_size, config.hidden_size, attention.output_bias) {}

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    h += c_proj(ctx.kernels.gelu_tanh(c_fc(post_attention_layernorm(h, ctx), ctx)), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_starcoder2(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention,
                   attention_options(config, {.activation = "gelu_pytorch_tanh", .has_windows = true}));
  if (config.use_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  ASSIGN_OR_RETURN(std::vector<int> windows, layer_windows(config, [](int) { return true; }));
  const nn::LayerAttention of_layer = attention_of_layers(std::move(attention), std::move(windows));
  return std::make_unique<DecoderModel<Starcoder2Layer, nn::LayerNorm>>(
      root, config, [&](const nn::Scope& scope, int layer) { return Starcoder2Layer(scope, config, of_layer(layer)); });
}

}  // namespace redpoll::models
