// Qwen3.5, text: three layers with a gated delta rule, then one with attention whose output is gated; a dense MLP or
// experts beside one that sees every token. Follows mlx_lm/models/qwen3_5.py.
#include <optional>

#include "models/decoder.h"
#include "models/registry.h"
#include "nn/attention.h"
#include "nn/gated_delta_net.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace redpoll::models {
namespace {

/// Experts, and one that sees every token, gated.
struct SharedExpertMoe {
  nn::SparseMoe experts;
  nn::GatedMLP shared_expert;
  nn::Linear shared_expert_gate;

  SharedExpertMoe(const nn::Scope& scope, const checkpoint::Config& config)
      : experts(scope, moe_options(config, Normalized::kUnlessFalse)),
        shared_expert(scope["shared_expert"], config.hidden_size, config.shared_expert_intermediate_size),
        shared_expert_gate(scope["shared_expert_gate"], config.hidden_size, 1) {}

  [[nodiscard]] mx::array operator()(const mx::array& x, const nn::ForwardContext& ctx) const {
    const mx::array shared = ctx.kernels.gate_rows(shared_expert(x, ctx), shared_expert_gate(x, ctx));
    return ctx.kernels.add(experts(x, ctx), shared);
  }
};

struct Qwen35Layer {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  std::optional<nn::Attention> self_attn;
  std::optional<nn::GatedDeltaNet> linear_attn;
  std::optional<nn::GatedMLP> mlp;
  std::optional<SharedExpertMoe> experts;

  Qwen35Layer(const nn::Scope& scope, const checkpoint::Config& config, float norm_weight_offset)
      : input_layernorm(scope["input_layernorm"], config.hidden_size, static_cast<float>(config.rms_norm_eps),
                        norm_weight_offset),
        post_attention_layernorm(scope["post_attention_layernorm"], config.hidden_size,
                                 static_cast<float>(config.rms_norm_eps), norm_weight_offset) {
    if (config.num_experts > 0) {
      experts.emplace(scope["mlp"], config);
    } else {
      mlp.emplace(scope["mlp"], config.hidden_size, config.intermediate_size);
    }
  }

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    const mx::array x = input_layernorm(h, ctx);
    h += self_attn ? (*self_attn)(x, ctx) : (*linear_attn)(x, ctx);
    const mx::array y = post_attention_layernorm(h, ctx);
    h += mlp ? (*mlp)(y, ctx) : (*experts)(y, ctx);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn ? self_attn->cache() : linear_attn->cache(); }
};

Status check_delta_fields(const checkpoint::Config& config) {
  for (const auto& [name, value] : {std::pair{"linear_num_value_heads", config.linear_num_value_heads},
                                    {"linear_num_key_heads", config.linear_num_key_heads},
                                    {"linear_key_head_dim", config.linear_key_head_dim},
                                    {"linear_value_head_dim", config.linear_value_head_dim}}) {
    if (value == 0) {
      return fail(ErrorCode::kInvalidArgument, "the model's config: '" + std::string(name) + "' is missing", name);
    }
  }
  if (config.linear_num_value_heads % config.linear_num_key_heads != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's config: 'linear_num_key_heads' does not divide linear_num_value_heads " +
                    std::to_string(config.linear_num_value_heads),
                "linear_num_key_heads");
  }
  return {};
}

}  // namespace

void complete_qwen3_5(checkpoint::Config& config) {
  if (!gives(config, "partial_rotary_factor")) config.partial_rotary_factor = 0.25;
  if (!gives(config, "rope_theta")) config.rope_theta = 1e5;
}

Result<std::unique_ptr<Model>> make_qwen3_5(const nn::Scope& root, const checkpoint::Config& config) {
  if (config.num_experts > 0) RETURN_IF_ERROR(check_experts(config));
  RETURN_IF_ERROR(check_delta_fields(config));
  ASSIGN_OR_RETURN(const std::vector<bool> is_recurrent, recurrent_layers(config, "linear_attention", [&](int layer) {
                     return (layer + 1) % config.full_attention_interval != 0;
                   }));
  ASSIGN_OR_RETURN(
      nn::AttentionOptions attention,
      attention_options(config, {.partial_rotation = nn::PartialRotation::kAllowed, .has_recurrent_layers = true}));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.has_output_gate = true;
  attention.head_norm = nn::HeadNorm::kEachHead;
  attention.norm_eps = static_cast<float>(config.rms_norm_eps);
  // As the authors store them, norms' weights lack one, and convolutions have their channels' sizes the other way
  // round.
  for (int layer = 0; layer < config.num_hidden_layers && attention.norm_weight_offset == 0; ++layer) {
    const auto sizes = root["model"]["layers"][layer]["linear_attn"]["conv1d"].shape("weight");
    if (!sizes.empty() && sizes.back() != 1) attention.norm_weight_offset = 1;
  }
  const auto make_layer = [&](const nn::Scope& scope, int layer) {
    Qwen35Layer made(scope, config, attention.norm_weight_offset);
    if (is_recurrent[static_cast<std::size_t>(layer)]) {
      made.linear_attn.emplace(scope["linear_attn"],
                               nn::GatedDeltaOptions{.layer = layer,
                                                     .hidden_size = config.hidden_size,
                                                     .num_key_heads = config.linear_num_key_heads,
                                                     .num_value_heads = config.linear_num_value_heads,
                                                     .key_dim = config.linear_key_head_dim,
                                                     .value_dim = config.linear_value_head_dim,
                                                     .convolution_size = config.linear_conv_kernel_dim,
                                                     .norm_eps = static_cast<float>(config.rms_norm_eps)});
    } else {
      attention.layer = layer;
      made.self_attn.emplace(scope["self_attn"], attention);
    }
    return made;
  };
  return std::make_unique<DecoderModel<Qwen35Layer>>(
      root, config, make_layer, DecoderOptions{.norm_weight_offset = attention.norm_weight_offset});
}

}  // namespace redpoll::models
