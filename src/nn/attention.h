// Attention: grouped-query attention with rotary embeddings over the paged cache. What a family adds (biases, norms of
// queries and keys) is stated in AttentionOptions.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "cache/cache_groups.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace redpoll::nn {

/// RMSNorm of queries and of keys, before the rotation.
enum class HeadNorm {
  kNone,
  kEachHead,  // over head_dim
  kAllHeads,  // over all heads of a token together
};

/// As checkpoints call them.
struct AttentionNames {
  std::string_view output = "o_proj";
  std::string_view q_norm = "q_norm";
  std::string_view k_norm = "k_norm";
};

struct AttentionOptions {
  int layer = 0;  // whose cache to use
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  std::optional<kernels::RopeSpec> rope = {};  // nullopt: positions are not encoded
  Bias qkv_bias = Bias::kNone;
  Bias output_bias = Bias::kNone;
  HeadNorm head_norm = HeadNorm::kNone;
  float norm_eps = 0;            // of these
  float norm_weight_offset = 0;  // of these
  kernels::AttentionSpec scores = {};
  bool has_output_gate =
      false;               // q_proj has a gate beside each head, whose sigmoid the head's output is multiplied with
  bool has_sinks = false;  // "sinks": see AttentionSpec
  AttentionNames names = {};
};

/// The attention of layer i.
using LayerAttention = std::function<AttentionOptions(int layer)>;

/// "q_proj", "k_proj" and "v_proj", or all three in "qkv_proj", in this order.
class Attention {
 public:
  Attention(const Scope& scope, AttentionOptions options);

  /// x (tokens, hidden) -> (tokens, hidden). Writes this layer's K and V of every token of the batch.
  [[nodiscard]] mx::array operator()(const mx::array& x, ForwardContext& ctx) const;

  /// What it needs to remember.
  [[nodiscard]] cache::LayerCache cache() const;

 private:
  /// `num_heads` heads, which in "qkv_proj" come after `first_head` others.
  [[nodiscard]] Linear make_projection(const Scope& scope, const char* name, int first_head, int num_heads) const;
  /// Of queries and gates, whose heads take turns in "q_proj".
  [[nodiscard]] Linear make_query_part(const Scope& scope, int part) const;
  [[nodiscard]] std::optional<RMSNorm> make_norm(const Scope& scope, int num_heads) const;
  [[nodiscard]] mx::array normalize(const std::optional<RMSNorm>& norm, mx::array heads, ForwardContext& ctx) const;

  AttentionOptions options_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<Linear> gate_proj_;
  std::optional<RMSNorm> q_norm_, k_norm_;
};

}  // namespace redpoll::nn
