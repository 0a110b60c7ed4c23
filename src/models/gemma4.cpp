// Gemma 4, text: layers with a window and layers that see all tokens, each kind with a head size and rotary embedding
// of its own; values are normalized; the last layers may read the K and V of earlier ones; some sizes give each layer
// an input of its own per token, one has experts beside its MLP. Follows mlx_lm/models/gemma4_text.py.
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "models/decoder.h"
#include "models/gemma4_attention.h"
#include "models/registry.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "nn/rope.h"

namespace redpoll::models {
namespace {

using kernels::GateActivation;

/// Rounded once, as mlx-lm does.
float inverse_root(int number) { return static_cast<float>(1 / std::sqrt(static_cast<double>(number))); }

/// Experts beside the MLP, both with norms of their own. The router sees the stream, normalized its own way.
struct Gemma4Experts {
  nn::RMSNorm router_norm, pre_norm, mlp_norm, post_norm;
  nn::SparseMoe experts;

  Gemma4Experts(const nn::Scope& scope, const checkpoint::Config& config)
      : router_norm(router_scale(scope, config), static_cast<float>(config.rms_norm_eps)),
        pre_norm(norm(scope, "pre_feedforward_layernorm_2", config)),
        mlp_norm(norm(scope, "post_feedforward_layernorm_1", config)),
        post_norm(norm(scope, "post_feedforward_layernorm_2", config)),
        experts(scope, options(scope, config)) {}

  static nn::RMSNorm norm(const nn::Scope& scope, std::string_view name, const checkpoint::Config& config) {
    return {scope[name], config.hidden_size, static_cast<float>(config.rms_norm_eps)};
  }
  static mx::array router_scale(const nn::Scope& scope, const checkpoint::Config& config) {
    const mx::array scale = scope["router"].vector("scale", config.hidden_size);
    mx::array scaled = mx::multiply(scale, mx::array(inverse_root(config.hidden_size), scale.dtype()));
    scaled.eval();
    return scaled;
  }
  static nn::MoeOptions options(const nn::Scope& scope, const checkpoint::Config& config) {
    nn::MoeOptions options = moe_options(config, Normalized::kUnlessFalse);
    options.routing.weights = kernels::RoutingWeights::kSoftmaxOfChosen;
    options.routing.is_precise = false;
    options.routing.expert_scales = scope["router"].vector("per_expert_scale", config.num_experts);
    options.activation = GateActivation::kFusedGeluTanh;
    options.router = "router.proj";
    options.stacked = "experts.switch_glu";
    return options;
  }
};

/// An input of the layer's own, gated by the stream.
struct Gemma4LayerInput {
  int first, size;
  nn::Linear gate, projection;
  nn::RMSNorm norm;

  Gemma4LayerInput(const nn::Scope& scope, const checkpoint::Config& config, int layer)
      : first(layer * config.hidden_size_per_layer_input),
        size(config.hidden_size_per_layer_input),
        gate(scope["per_layer_input_gate"], config.hidden_size, size),
        projection(scope["per_layer_projection"], size, config.hidden_size),
        norm(scope["post_per_layer_input_norm"], config.hidden_size, static_cast<float>(config.rms_norm_eps)) {}

  [[nodiscard]] mx::array operator()(const mx::array& x, const nn::ForwardContext& ctx) const {
    const mx::array input = ctx.kernels.take_columns(*ctx.layer_inputs, first, size);
    return norm(projection(ctx.kernels.gate_multiply(gate(x, ctx), input, GateActivation::kGeluTanh), ctx), ctx);
  }
};

struct Gemma4Layer {
  nn::RMSNorm input_layernorm, post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm;
  Gemma4Attention self_attn;
  nn::GatedMLP mlp;
  std::optional<Gemma4Experts> experts;
  std::optional<Gemma4LayerInput> layer_input;
  float layer_scalar;

  Gemma4Layer(const nn::Scope& scope, const checkpoint::Config& config, const Gemma4Shape& shape)
      : input_layernorm(Gemma4Experts::norm(scope, "input_layernorm", config)),
        post_attention_layernorm(Gemma4Experts::norm(scope, "post_attention_layernorm", config)),
        pre_feedforward_layernorm(Gemma4Experts::norm(scope, "pre_feedforward_layernorm", config)),
        post_feedforward_layernorm(Gemma4Experts::norm(scope, "post_feedforward_layernorm", config)),
        self_attn(scope["self_attn"], config, shape),
        mlp(scope["mlp"], config.hidden_size, shape.intermediate_size, {.activation = GateActivation::kFusedGeluTanh}),
        layer_scalar(mx::astype(scope.vector("layer_scalar", 1), mx::float32).item<float>()) {
    if (config.enable_moe_block) experts.emplace(scope, config);
    if (config.hidden_size_per_layer_input > 0) layer_input.emplace(scope, config, shape.layer);
  }

  void operator()(nn::ResidualStream& h, nn::ForwardContext& ctx) const {
    h += post_attention_layernorm(self_attn(input_layernorm(h, ctx), ctx), ctx);
    mx::array y = mlp(pre_feedforward_layernorm(h, ctx), ctx);
    if (experts) {
      const mx::array& x = h.sum(ctx);
      const mx::array chosen = experts->experts(experts->router_norm(x, ctx), experts->pre_norm(x, ctx), ctx);
      y = ctx.kernels.add(experts->mlp_norm(y, ctx), experts->post_norm(chosen, ctx));
    }
    h += post_feedforward_layernorm(y, ctx);
    if (layer_input) h += (*layer_input)(h.sum(ctx), ctx);
    if (layer_scalar != 1) h.scale(ctx, layer_scalar);
  }

  [[nodiscard]] cache::LayerCache cache() const { return self_attn.cache(); }
};

/// The layers' own inputs: a table by token, and a projection of the embedded token.
struct LayerInputs {
  int num_layers, size;
  float embed_scale, projection_scale;
  nn::Embedding embed_tokens_per_layer;
  nn::Linear per_layer_model_projection;
  nn::RMSNorm per_layer_projection_norm;

  LayerInputs(const nn::Scope& scope, const checkpoint::Config& config)
      : num_layers(config.num_hidden_layers),
        size(config.hidden_size_per_layer_input),
        embed_scale(std::sqrt(static_cast<float>(size))),
        projection_scale(inverse_root(config.hidden_size)),
        embed_tokens_per_layer(
            scope["embed_tokens_per_layer"],
            config.vocab_size_per_layer_input > 0 ? config.vocab_size_per_layer_input : config.vocab_size,
            num_layers * size, nn::TableUse::kRows),
        per_layer_model_projection(scope["per_layer_model_projection"], config.hidden_size, num_layers * size),
        per_layer_projection_norm(scope["per_layer_projection_norm"], size, static_cast<float>(config.rms_norm_eps)) {}

  void operator()(const mx::array& embedded, nn::ForwardContext& ctx) const {
    const auto& kernels = ctx.kernels;
    const mx::array projected = kernels.scale(per_layer_model_projection(embedded, ctx), projection_scale);
    const mx::array normalized = per_layer_projection_norm(mx::reshape(projected, {-1, num_layers, size}), ctx);
    const mx::array looked_up = kernels.scale(embed_tokens_per_layer(ctx.batch), embed_scale);
    const mx::array sum = kernels.add(mx::reshape(normalized, looked_up.shape()), looked_up);
    ctx.layer_inputs = kernels.scale(sum, inverse_root(2));
  }
};

Status check_gemma4_fields(const checkpoint::Config& config) {
  const auto refuse = [](ErrorCode code, const std::string& field, const std::string& why) {
    return fail(code, "the model's config: '" + field + "' " + why, field);
  };
  if (!config.sliding_window) return refuse(ErrorCode::kInvalidArgument, "sliding_window", "is missing");
  if (config.hidden_act != "gelu_pytorch_tanh") {
    return refuse(ErrorCode::kUnsupported, "hidden_activation",
                  "is '" + config.hidden_act + "', expected 'gelu_pytorch_tanh'");
  }
  const int vocab = config.vocab_size_per_layer_input;
  if (vocab > 0 && vocab < config.vocab_size) {
    return refuse(ErrorCode::kUnsupported, "vocab_size_per_layer_input", "is less than vocab_size");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_gemma4(const nn::Scope& root, const checkpoint::Config& config) {
  if (config.enable_moe_block) RETURN_IF_ERROR(check_experts(config));
  RETURN_IF_ERROR(check_gemma4_fields(config));
  const int pattern = config.sliding_window_pattern > 0 ? config.sliding_window_pattern : 5;
  ASSIGN_OR_RETURN(const std::vector<int> windows,
                   layer_windows(config, [pattern](int layer) { return (layer + 1) % pattern != 0; }));
  const int full_dim = config.global_head_dim > 0 ? config.global_head_dim : config.head_dim;
  ASSIGN_OR_RETURN(const kernels::RopeSpec local_rope,
                   nn::make_rope_of_layers(config, "sliding_attention", config.head_dim));
  ASSIGN_OR_RETURN(const kernels::RopeSpec full_rope, nn::make_rope_of_layers(config, "full_attention", full_dim));

  const int num_own = std::max(config.num_hidden_layers - config.num_kv_shared_layers, 0);
  const std::span own = std::span(windows).first(static_cast<std::size_t>(num_own));
  if (!std::ranges::all_of(windows, [&](int window) { return std::ranges::find(own, window) != own.end(); })) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's config: 'num_kv_shared_layers' leaves a kind of layers without any that has K and V",
                "num_kv_shared_layers");
  }

  std::map<int, int> last_of_window;  // the last layer that has K and V of its own, by its window
  const auto make_layer = [&](const nn::Scope& scope, int layer) {
    const int window = windows[static_cast<std::size_t>(layer)];
    const bool k_is_v = config.attention_k_eq_v && window == 0;
    if (layer < num_own) last_of_window[window] = layer;
    return Gemma4Layer(
        scope, config,
        {.layer = layer,
         .kv_layer = last_of_window[window],
         .head_dim = window > 0 ? config.head_dim : full_dim,
         .num_kv_heads = k_is_v && config.num_global_key_value_heads > 0 ? config.num_global_key_value_heads
                                                                         : config.num_key_value_heads,
         .window = window,
         .intermediate_size = config.intermediate_size * (layer >= num_own && config.use_double_wide_mlp ? 2 : 1),
         .k_is_v = k_is_v,
         .rope = window > 0 ? local_rope : full_rope});
  };
  DecoderOptions options{.embed_scale = std::sqrt(static_cast<float>(config.hidden_size)),
                         .logit_softcap = static_cast<float>(config.final_logit_softcapping)};
  if (config.hidden_size_per_layer_input > 0) {
    options.prepare = [inputs = std::make_shared<LayerInputs>(root["model"], config)](
                          const mx::array& embedded, nn::ForwardContext& ctx) { (*inputs)(embedded, ctx); };
  }
  return std::make_unique<DecoderModel<Gemma4Layer>>(root, config, make_layer, options);
}

}  // namespace redpoll::models
