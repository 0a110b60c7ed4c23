// Mistral: Llama whose layers, all or those that the config says, see the last sliding_window tokens, where it names
// so many. Follows transformers'
// Mistral; mlx-lm, which runs it as Llama, has no window.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_mistral(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config, {.has_windows = true}));
  ASSIGN_OR_RETURN(std::vector<int> windows, layer_windows(config, [](int) { return true; }));
  return make_llama_decoder(root, config, attention_of_layers(std::move(attention), std::move(windows)));
}

}  // namespace redpoll::models
