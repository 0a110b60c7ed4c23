// Qwen2 and Qwen2.5: Llama with biases on the query, key and value projections and none on the output.
// Follows mlx_lm/models/qwen2.py.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_qwen2(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  attention.qkv_bias = nn::Bias::kRequired;
  return make_llama_decoder(root, config, std::move(attention));
}

}  // namespace redpoll::models
