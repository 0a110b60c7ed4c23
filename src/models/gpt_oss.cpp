// gpt-oss: experts with biases and a clamped activation; every other layer, from the first, sees the last
// sliding_window tokens only; each head has a sink among its scores. Follows mlx_lm/models/gpt_oss.py but for yarn's
// `truncate`, which that ignores and transformers' GptOss has.
#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/moe.h"

namespace redpoll::models {
namespace {

struct GptOssLayer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  nn::SparseMoe mlp;

  GptOssLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention,
              const nn::MoeOptions& experts)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention),
        mlp(scope["mlp"], experts) {}

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    h += mlp(post_attention_layernorm(h, ctx), ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

void complete_gpt_oss(checkpoint::Config& config) {
  if (!gives(config, "rope_theta")) config.rope_theta = 150'000;
}

Result<std::unique_ptr<Model>> make_gpt_oss(const nn::Scope& root, const checkpoint::Config& config) {
  checkpoint::Config own = config;
  own.moe_intermediate_size = config.intermediate_size;
  if (own.swiglu_limit != 7) {
    return fail(ErrorCode::kUnsupported, "the model's config: 'swiglu_limit' other than 7 is not supported",
                "swiglu_limit");
  }
  RETURN_IF_ERROR(check_experts(own));
  nn::MoeOptions experts = moe_options(own, Normalized::kUnlessFalse);
  experts.routing.weights = kernels::RoutingWeights::kSoftmaxOfChosen;
  experts.activation = kernels::GateActivation::kClampedSilu;
  experts.bias = nn::Bias::kRequired;
  experts.router = "router";
  experts.stacked = "experts";
  experts.fused_order = nn::FusedOrder::kInterleaved;
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(own, {.has_windows = true}));
  attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.has_sinks = true;
  ASSIGN_OR_RETURN(std::vector<int> windows, layer_windows(config, [](int layer) { return layer % 2 == 0; }));
  const nn::LayerAttention with_window = attention_of_layers(std::move(attention), std::move(windows));
  return std::make_unique<DecoderModel<GptOssLayer>>(root, own, [&](const nn::Scope& scope, int layer) {
    return GptOssLayer(scope, own, with_window(layer), experts);
  });
}

}  // namespace redpoll::models
