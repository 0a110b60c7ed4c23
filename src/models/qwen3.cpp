// Qwen3 (dense): Llama with RMSNorm on each query and key head before the rotation. Follows mlx_lm/models/qwen3.py.
#include "models/llama.h"
#include "models/registry.h"

namespace redpoll::models {

Result<std::unique_ptr<Model>> make_qwen3(const nn::Scope& root, const checkpoint::Config& config) {
  ASSIGN_OR_RETURN(nn::AttentionOptions attention, attention_options(config));
  if (config.attention_bias) attention.qkv_bias = attention.output_bias = nn::Bias::kRequired;
  attention.head_norm = nn::HeadNorm::kEachHead;
  attention.norm_eps = static_cast<float>(config.rms_norm_eps);
  return make_llama_decoder(root, config, std::move(attention));
}

}  // namespace redpoll::models
