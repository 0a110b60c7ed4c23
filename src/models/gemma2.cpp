// Gemma 2: capped scores and logits; every other layer, from the first, sees the last sliding_window tokens only.
// Follows mlx_lm/models/gemma2.py but for the window, which that lacks and transformers' Gemma2 has.
#include <cmath>

#include "models/gemma.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_gemma2(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(const nn::AttentionOptions all, gemma_attention_options(config));
  const int window = config.sliding_window.value_or(0);
  const auto has_window = [window](int layer) { return window > 0 && layer % 2 == 0; };
  RETURN_IF_ERROR(check_layer_types(config, has_window));
  return make_gemma_decoder(root, config, std::sqrt(static_cast<float>(config.hidden_size)), [&](int layer) {
    nn::AttentionOptions attention = all;
    attention.layer = layer;
    if (has_window(layer)) attention.scores.window = window;
    return attention;
  });
}

}  // namespace redpoll::models
