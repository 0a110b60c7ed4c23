// Attention: grouped-query attention with rotary embeddings over the paged cache. What a family adds (biases, a norm
// on each query and key head) is stated in AttentionOptions.
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/norm.h"

namespace redpoll::nn {

struct AttentionOptions {
  int layer = 0;  // whose cache to use
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  kernels::RopeSpec rope = {};
  Bias qkv_bias = Bias::kNone;
  Bias output_bias = Bias::kNone;
  std::optional<float> head_norm_eps = {};  // set: q_norm and k_norm over head_dim before the rotation
};

class Attention {
 public:
  Attention(const Scope& scope, AttentionOptions options);

  /// x (tokens, hidden) -> (tokens, hidden). Writes this layer's K and V of every token of the batch.
  [[nodiscard]] mx::array operator()(const mx::array& x, ForwardContext& ctx) const;

 private:
  AttentionOptions options_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<RMSNorm> q_norm_, k_norm_;
};

}  // namespace redpoll::nn
