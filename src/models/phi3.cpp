// Phi-3 and Phi-4-mini: Llama, some with a window, a partial rotation or longrope; projections are fused in the file.
// Follows mlx_lm/models/phi3.py but for the window, which that lacks and transformers' Phi3 has.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_phi3(const nn::Scope& root, const checkpoint::Config& config) {
  const FamilyTraits traits{.partial_rotation = nn::PartialRotation::kAllowed, .has_windows = true};
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config, traits));
  ASSIGN_OR_RETURN(std::vector<int> windows, layer_windows(config, [](int) { return true; }));
  return make_llama_decoder(root, config, attention_of_layers(std::move(attention), std::move(windows)));
}

}  // namespace redpoll::models
