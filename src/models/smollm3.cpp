// SmolLM3: Llama in which every fourth layer, or those that the config says, does not encode positions. Follows
// mlx_lm/models/smollm3.py.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_smollm3(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions all, attention_options(config));
  if (config.attention_bias) all.qkv_bias = all.output_bias = nn::Bias::kRequired;
  const std::vector<int>& has_rope = config.no_rope_layers;  // the name notwithstanding: 1 where there is one
  if (!has_rope.empty() && has_rope.size() != static_cast<std::size_t>(config.num_hidden_layers)) {
    return fail(ErrorCode::kInvalidArgument,
                "the model's config: 'no_rope_layers' has " + std::to_string(has_rope.size()) + " entries, expected " +
                    std::to_string(config.num_hidden_layers) + ", one for each layer",
                "no_rope_layers");
  }
  return make_llama_decoder(root, config, nn::LayerAttention([&](int layer) {
                              nn::AttentionOptions attention = all;
                              attention.layer = layer;
                              const bool rotates = has_rope.empty() ? (layer + 1) % config.no_rope_layer_interval != 0
                                                                    : has_rope[static_cast<std::size_t>(layer)] != 0;
                              if (!rotates) attention.rope.reset();
                              return attention;
                            }));
}

}  // namespace redpoll::models
