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

/// These attention options in each layer, with its window.
[[nodiscard]] nn::LayerAttention attention_of_layers(nn::AttentionOptions attention, std::vector<int> windows);

/// Fails unless the config says how many experts there are, how large they are and how many see a token.
[[nodiscard]] Status check_experts(const checkpoint::Config& config);
[[nodiscard]] nn::MoeOptions moe_options(const checkpoint::Config& config);

Result<std::unique_ptr<Model>> make_gemma2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_gemma3_text(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_glm4(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_granite(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_llama(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_mistral(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_olmo2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_phi3(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen2(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen3(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_qwen3_moe(const nn::Scope& root, const checkpoint::Config& config);
Result<std::unique_ptr<Model>> make_smollm3(const nn::Scope& root, const checkpoint::Config& config);

}  // namespace redpoll::models
