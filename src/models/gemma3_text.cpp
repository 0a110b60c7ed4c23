// Gemma 3, text: five layers that see the last sliding_window tokens, with a rotary base of their own, then one that
// sees all; a norm on each query and key head. Follows mlx_lm/models/gemma3_text.py.
#include <mlx/ops.h>

#include <cmath>

#include "models/gemma_layer.h"
#include "models/registry.h"
#include "nn/rope.h"

namespace redpoll::models {
namespace {

constexpr int kPattern = 6;

/// The root of the hidden size as bfloat16 has it, whatever the model's type: it was trained so.
float embed_scale(int hidden_size) {
  return mx::astype(mx::array(std::sqrt(static_cast<float>(hidden_size)), mx::bfloat16), mx::float32).item<float>();
}

}  // namespace

/// As transformers' Gemma3TextConfig has them; published configs of the larger sizes leave most of these out.
void complete_gemma3(checkpoint::Config& config) {
  if (!gives(config, "num_attention_heads")) config.num_attention_heads = 8;
  if (!gives(config, "num_key_value_heads")) config.num_key_value_heads = 4;
  if (!gives(config, "head_dim")) config.head_dim = 256;
  if (!gives(config, "vocab_size")) config.vocab_size = 262'208;
  if (!gives(config, "rms_norm_eps")) config.rms_norm_eps = 1e-6;
  if (!gives(config, "rope_theta")) config.rope_theta = 1e6;
  if (!gives(config, "query_pre_attn_scalar")) config.query_pre_attn_scalar = 256;
  if (!gives(config, "hidden_activation") && !gives(config, "hidden_act")) config.hidden_act = "gelu_pytorch_tanh";
  if (!gives(config, "max_position_embeddings")) config.max_position_embeddings = 131'072;
  if (!gives(config, "sliding_window")) {
    config.sliding_window = 4096;
    config.use_sliding_window = true;
  }
}

Result<std::unique_ptr<Model>> make_gemma3_text(const nn::Scope& root, const checkpoint::Config& config) {
  if (!config.sliding_window) {
    return fail(ErrorCode::kInvalidArgument, "the model's config: 'sliding_window' is missing", "sliding_window");
  }
  ASSIGN_OR_RETURN(nn::AttentionOptions all, gemma_attention_options(config));
  all.head_norm = nn::HeadNorm::kEachHead;
  all.norm_eps = static_cast<float>(config.rms_norm_eps);
  const kernels::RopeSpec local_rope = nn::make_rope_of_base(config, config.rope_local_base_freq);
  const int pattern = config.sliding_window_pattern > 0 ? config.sliding_window_pattern : kPattern;
  ASSIGN_OR_RETURN(const std::vector<int> windows,
                   layer_windows(config, [pattern](int layer) { return (layer + 1) % pattern != 0; }));
  const nn::LayerAttention with_window = attention_of_layers(std::move(all), windows);
  return make_gemma_decoder(root, config, embed_scale(config.hidden_size), [&](int layer) {
    nn::AttentionOptions attention = with_window(layer);
    if (attention.scores.window > 0) attention.rope = local_rope;
    return attention;
  });
}

}  // namespace redpoll::models
