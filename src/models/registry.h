// The families: config.json's `model_type` to the function that builds it. To add one, write
// src/models/<model_type>.cpp and a line in registry.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/model.h"
#include "nn/attention.h"
#include "nn/moe.h"
#include "nn/rope.h"

namespace redpoll::models {

struct Family {
  std::string_view model_type;
  Result<std::unique_ptr<Model>> (*make)(const nn::Scope& root, const checkpoint::Config& config);
  std::string_view oracle;    // what tiny random models of it are compared with, in tests/golden/models
  bool is_text_part = false;  // of a model that may have more: vision towers and heads that draft are left unread
  /// Sets fields that configs of the family leave out.
  void (*complete)(checkpoint::Config& config) = nullptr;
  std::string_view real_model = {};  // whose answers were compared, too
};

[[nodiscard]] std::span<const Family> families();

/// Builds the model of a checkpoint on the engine thread. kUnsupported names an unknown model_type and lists the known
/// ones; kCorruptFile lists tensors that are missing, misshapen or that no layer read. The checkpoint may be dropped
/// afterwards.
[[nodiscard]] Result<std::unique_ptr<Model>> make_model(const checkpoint::Checkpoint& checkpoint,
                                                        const kernels::Kernels& kernels);

/// What a family does with fields that others must refuse.
struct FamilyTraits {
  nn::PartialRotation partial_rotation = nn::PartialRotation::kRefused;
  bool has_recurrent_layers = false;  // whose layer_types recurrent_layers has read
  std::string_view activation = "silu";
  bool has_windows = false;  // in all layers, unless layer_types says otherwise, if its config names a sliding_window
};

/// Attention as the config describes it, the same in all layers and without a window. Fails for configs that ask for a
/// sliding window that the family does not have, for an activation other than silu, or for a rotary embedding that is
/// not known.
[[nodiscard]] Result<nn::AttentionOptions> attention_options(const checkpoint::Config& config,
                                                             const FamilyTraits& traits = {});

/// The window of each layer, 0 where it sees all tokens: where layer_types says so, or without it where `usual` does.
/// Fails, naming layer_types, if that lists other kinds of layers, or not one for each.
[[nodiscard]] Result<std::vector<int>> layer_windows(const checkpoint::Config& config,
                                                     const std::function<bool(int layer)>& usual);

/// Whether each layer is recurrent: where layer_types has `type`, or without it where `usual` says so. Fails, naming
/// layer_types, if that lists anything but `type` and full_attention, or not one for each layer.
[[nodiscard]] Result<std::vector<bool>> recurrent_layers(const checkpoint::Config& config, std::string_view type,
                                                         const std::function<bool(int layer)>& usual);

/// These attention options in each layer, with its window.
[[nodiscard]] nn::LayerAttention attention_of_layers(nn::AttentionOptions attention, std::vector<int> windows);

/// Whether config.json, or its rope_parameters, has the field.
[[nodiscard]] bool gives(const checkpoint::Config& config, std::string_view field);

/// Fails unless the config says how many experts there are, how large they are and how many see a token.
[[nodiscard]] Status check_experts(const checkpoint::Config& config);
/// Whether the weights of the chosen experts sum to 1 where norm_topk_prob does not say.
enum class Normalized { kUnlessFalse, kIfTrue };
[[nodiscard]] nn::MoeOptions moe_options(const checkpoint::Config& config, Normalized normalized);

void complete_gemma3(checkpoint::Config& config);
void complete_gpt_oss(checkpoint::Config& config);
void complete_lfm2(checkpoint::Config& config);
void complete_qwen3_5(checkpoint::Config& config);

Result<std::unique_ptr<Model>> make_gemma(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_gemma2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_gemma3_text(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_gemma4(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_glm4(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_gpt_oss(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_granite(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_lfm2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_llama(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_mistral(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_olmo2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_phi3(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen3(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen3_5(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen3_moe(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_smollm3(const nn::Scope& root, const checkpoint::Config& config);

Result<std::unique_ptr<Model>> make_starcoder2(const nn::Scope& root, const checkpoint::Config& config);

}  // namespace redpoll::models
