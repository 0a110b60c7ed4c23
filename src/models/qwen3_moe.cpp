// Qwen3 MoE: Qwen3 in which some layers, mostly all, have a mixture of experts in place of the MLP. Follows
// mlx_lm/models/qwen3_moe.py.
#include <algorithm>
#include <optional>

#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace redpoll::models {
namespace {

struct Qwen3MoeLayer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  nn::Attention self_attn;
  std::optional<nn::GatedMLP> mlp;
  std::optional<nn::SparseMoe> experts;

  Qwen3MoeLayer(const nn::Scope& scope, const checkpoint::Config& config, const nn::AttentionOptions& attention)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps)),
        self_attn(scope["self_attn"], attention) {
    const bool is_dense = std::ranges::find(config.mlp_only_layers, attention.layer) != config.mlp_only_layers.end() ||
                          (attention.layer + 1) % config.decoder_sparse_step != 0;
    if (is_dense) {
      mlp.emplace(scope["mlp"], config.hidden_size, config.intermediate_size);
    } else {
      experts.emplace(scope["mlp"], moe_options(config, Normalized::kIfTrue));
    }
  }

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += self_attn(input_layernorm(h, ctx), ctx);
    const mx::array x = post_attention_layernorm(h, ctx);
    h += mlp ? (*mlp)(x, ctx) : (*experts)(x, ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

}  // namespace

Result<std::unique_ptr<Model>> make_qwen3_moe(const nn::Scope& root, const checkpoint::Config& config) {
  RETURN_IF_ERROR(check_experts(config));
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.head_norm = nn::HeadNorm::kEachHead;
  attention.norm_eps = static_cast<float>(config.rms_norm_eps);
  return std::make_unique<DecoderModel<Qwen3MoeLayer>>(root, config, [&](const nn::Scope& scope, int layer) {
    attention.layer = layer;
    return Qwen3MoeLayer(scope, config, attention);
  });
}

}  // namespace redpoll::models
