// Gemma 2: capped scores and logits; every other layer, from the first, sees the last sliding_window tokens only.
// Follows mlx_lm/models/gemma2.py but for the window, which that lacks and transformers' Gemma2 has.
#include <cmath>

#include "models/gemma_layer.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_gemma2(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, gemma_attention_options(config));
  ASSIGN_OR_RETURN(std::vector<int> windows, layer_windows(config, [](int layer) { return layer % 2 == 0; }));
  return make_gemma_decoder(root, config, std::sqrt(static_cast<float>(config.hidden_size)),
                            attention_of_layers(std::move(attention), std::move(windows)));
}

}  // namespace redpoll::models
