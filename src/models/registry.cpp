#include "models/registry.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace redpoll::models {
namespace {

constexpr Family kFamilies[] = {
    {.model_type = "gemma", .make = make_gemma, .oracle = "mlx-lm, with gelu by tanh"},
    {.model_type = "gemma2", .make = make_gemma2, .oracle = "mlx-lm, without a window"},
    {.model_type = "gemma3",
     .make = make_gemma3_text,
     .oracle = "as gemma3_text",
     .is_text_part = true,
     .complete = complete_gemma3},
    {.model_type = "gemma3_text",
     .make = make_gemma3_text,
     .oracle = "mlx-lm",
     .complete = complete_gemma3,
     .real_model = "Gemma 3 270M: llama.cpp"},
    {.model_type = "gemma4", .make = make_gemma4, .oracle = "as gemma4_text", .is_text_part = true},
    {.model_type = "gemma4_text", .make = make_gemma4, .oracle = "mlx-lm"},
    {.model_type = "gemma4_unified", .make = make_gemma4, .oracle = "as gemma4_text", .is_text_part = true},
    {.model_type = "glm4", .make = make_glm4, .oracle = "mlx-lm"},
    {.model_type = "gpt_oss", .make = make_gpt_oss, .oracle = "mlx-lm", .complete = complete_gpt_oss},
    {.model_type = "granite", .make = make_granite, .oracle = "mlx-lm"},
    {.model_type = "lfm2", .make = make_lfm2, .oracle = "mlx-lm", .complete = complete_lfm2},
    {.model_type = "llama",
     .make = make_llama,
     .oracle = "mlx-lm",
     .real_model = "SmolLM2-135M-Instruct: mlx-lm, llama.cpp"},
    {.model_type = "mistral", .make = make_mistral, .oracle = "mlx-lm, without a window"},
    {.model_type = "olmo2", .make = make_olmo2, .oracle = "mlx-lm"},
    {.model_type = "phi3", .make = make_phi3, .oracle = "mlx-lm, without a window"},
    {.model_type = "qwen2", .make = make_qwen2, .oracle = "mlx-lm"},
    {.model_type = "qwen3", .make = make_qwen3, .oracle = "mlx-lm"},
    {.model_type = "qwen3_5",
     .make = make_qwen3_5,
     .oracle = "mlx-lm",
     .is_text_part = true,
     .complete = complete_qwen3_5},
    {.model_type = "qwen3_5_moe",
     .make = make_qwen3_5,
     .oracle = "mlx-lm",
     .is_text_part = true,
     .complete = complete_qwen3_5},
    {.model_type = "qwen3_5_text", .make = make_qwen3_5, .oracle = "as qwen3_5", .complete = complete_qwen3_5},
    {.model_type = "qwen3_moe", .make = make_qwen3_moe, .oracle = "mlx-lm"},
    {.model_type = "smollm3", .make = make_smollm3, .oracle = "mlx-lm"},
    {.model_type = "starcoder2", .make = make_starcoder2, .oracle = "mlx-lm, with gelu by tanh and without a window"},
};

/// What a text model does not read of a checkpoint that holds more.
constexpr std::string_view kOtherParts[] = {"vision_tower.",
                                            "multi_modal_projector.",
                                            "model.visual.",
                                            "model.vision_tower.",
                                            "model.multi_modal_projector.",
                                            "mtp.",
                                            "language_model.mtp.",
                                            "audio_tower.",
                                            "embed_audio.",
                                            "embed_vision.",
                                            "model.audio_tower.",
                                            "model.embed_audio.",
                                            "model.embed_vision.",
                                            "vision_embedder.",
                                            "model.vision_embedder."};

std::unexpected<Error> wrong_layer_types(const std::string& why) {
  return fail(ErrorCode::kUnsupported, "the model's config: 'layer_types' " + why, "layer_types");
}

Status check_num_layer_types(const checkpoint::Config& config) {
  const std::size_t num_types = config.layer_types.size();
  if (num_types == 0 || num_types == static_cast<std::size_t>(config.num_hidden_layers)) return {};
  return wrong_layer_types("has " + std::to_string(num_types) + " entries, expected " +
                           std::to_string(config.num_hidden_layers) + ", one for each layer");
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

Result<std::vector<int>> layer_windows(const checkpoint::Config& config, const std::function<bool(int layer)>& usual) {
  const std::vector<std::string>& types = config.layer_types;
  RETURN_IF_ERROR(check_num_layer_types(config));
  const int window = config.use_sliding_window ? config.sliding_window.value_or(0) : 0;
  std::vector<int> windows(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const bool slides = types.empty() ? usual(static_cast<int>(i)) : types[i] == "sliding_attention";
    if (!types.empty() && !slides && types[i] != "full_attention") {
      return wrong_layer_types("has '" + types[i] + "' at " + std::to_string(i) +
                               "; expected 'full_attention' or 'sliding_attention'");
    }
    if (!types.empty() && slides && window == 0) {
      return wrong_layer_types("has 'sliding_attention' at " + std::to_string(i) + ", and there is no sliding_window");
    }
    windows[i] = slides ? window : 0;
  }
  return windows;
}

Result<std::vector<bool>> recurrent_layers(const checkpoint::Config& config, std::string_view type,
                                           const std::function<bool(int layer)>& usual) {
  const std::vector<std::string>& types = config.layer_types;
  RETURN_IF_ERROR(check_num_layer_types(config));
  std::vector<bool> recurrent(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t i = 0; i < recurrent.size(); ++i) {
    recurrent[i] = types.empty() ? usual(static_cast<int>(i)) : types[i] == type;
    if (!types.empty() && !recurrent[i] && types[i] != "full_attention") {
      return wrong_layer_types("has '" + types[i] + "' at " + std::to_string(i) + "; expected 'full_attention' or '" +
                               std::string(type) + "'");
    }
  }
  return recurrent;
}

nn::LayerAttention attention_of_layers(nn::AttentionOptions attention, std::vector<int> windows) {
  return [attention = std::move(attention), windows = std::move(windows)](int layer) {
    nn::AttentionOptions of_layer = attention;
    of_layer.layer = layer;
    of_layer.scores.window = windows[static_cast<std::size_t>(layer)];
    return of_layer;
  };
}

Result<nn::AttentionOptions> attention_options(const checkpoint::Config& config, const FamilyTraits& traits) {
  std::vector<int> windows;
  if (!traits.has_recurrent_layers) {
    ASSIGN_OR_RETURN(windows, layer_windows(config, [](int) { return true; }));
  }
  if (!traits.has_windows && std::ranges::any_of(windows, [](int window) { return window > 0; })) {
    return fail(ErrorCode::kUnsupported,
                "the model's config: sliding_window " + std::to_string(*config.sliding_window) +
                    " is not supported for model_type '" + config.model_type + "'",
                "sliding_window");
  }
  if (config.hidden_act != traits.activation) {
    return fail(ErrorCode::kUnsupported,
                "the model's config: hidden_act '" + config.hidden_act + "' is not supported; expected '" +
                    std::string(traits.activation) + "'",
                "hidden_act");
  }
  ASSIGN_OR_RETURN(kernels::RopeSpec rope, nn::make_rope(config, traits.partial_rotation));
  return nn::AttentionOptions{.hidden_size = config.hidden_size,
                              .num_heads = config.num_attention_heads,
                              .num_kv_heads = config.num_key_value_heads,
                              .head_dim = config.head_dim,
                              .rope = std::move(rope),
                              .scores = {.scale = static_cast<float>(1 / std::sqrt(double{1} * config.head_dim))}};
}

bool gives(const checkpoint::Config& config, std::string_view field) {
  const json::value* value = config.raw.if_contains(field);
  if (value != nullptr && !value->is_null()) return true;
  const json::value* rope = config.raw.if_contains("rope_parameters");
  return rope != nullptr && rope->is_object() && rope->get_object().contains(field);
}

Status check_experts(const checkpoint::Config& config) {
  const auto missing = [&](const std::string& name) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's config: '" + name + "' is missing, which a model_type '" + config.model_type + "' needs",
                name);
  };
  if (config.num_experts == 0) return missing("num_experts");
  if (config.num_experts_per_tok == 0) return missing("num_experts_per_tok");
  if (config.moe_intermediate_size == 0) return missing("moe_intermediate_size");
  if (config.num_experts_per_tok > config.num_experts) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's config: 'num_experts_per_tok': expected at most " + std::to_string(config.num_experts) +
                    ", which is num_experts, got " + std::to_string(config.num_experts_per_tok),
                "num_experts_per_tok");
  }
  return {};
}

nn::MoeOptions moe_options(const checkpoint::Config& config, Normalized normalized) {
  return {.hidden_size = config.hidden_size,
          .intermediate_size = config.moe_intermediate_size,
          .num_experts = config.num_experts,
          .routing = {.top_k = config.num_experts_per_tok,
                      .weights = config.norm_topk_prob.value_or(normalized == Normalized::kUnlessFalse)
                                     ? kernels::RoutingWeights::kNormalizedSoftmax
                                     : kernels::RoutingWeights::kSoftmax}};
}

Result<std::unique_ptr<Model>> make_model(const checkpoint::Checkpoint& checkpoint, const kernels::Kernels& kernels) {
  checkpoint::Config config = checkpoint.config;
  const auto family = std::ranges::find(kFamilies, std::string_view(config.model_type), &Family::model_type);
  if (family == std::end(kFamilies)) {
    std::string known;
    for (const Family& one : kFamilies) known += (known.empty() ? "" : ", ") + std::string(one.model_type);
    return fail(ErrorCode::kUnsupported,
                "the model's config: model_type '" + config.model_type + "' is not supported; known are " + known,
                "model_type");
  }
  if (family->complete != nullptr) family->complete(config);
  RETURN_IF_ERROR(checkpoint::require_decoder_fields(config));
  nn::Parameters parameters(checkpoint, kernels);
  if (family->is_text_part) {
    for (const std::string_view part : kOtherParts) parameters.ignore(part);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, family->make(parameters.root(), config));
  RETURN_IF_ERROR(parameters.finish());
  return model;
}

}  // namespace redpoll::models
