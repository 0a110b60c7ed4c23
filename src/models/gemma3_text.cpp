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
