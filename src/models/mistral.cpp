// Mistral: Llama whose layers see the last sliding_window tokens, where the config names so many. Follows transformers'
// Mistral; mlx-lm, which runs it as Llama, has no window.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_mistral(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config, {.has_window_in_all_layers = true}));
  return make_llama_decoder(root, config, std::move(attention));
}

}  // namespace redpoll::models
