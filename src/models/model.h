// Model: token ids of a ragged batch in, logits out. Knows nothing of requests, sampling or text.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cache/cache_groups.h"
#include "nn/forward_context.h"
#include "nn/parameters.h"

namespace redpoll::models {

namespace mx = mlx::core;

/// What the engine must know about a model to give it memory.
struct ModelInfo {
  std::string model_type;
  int vocab_size = 0;
  std::vector<cache::LayerCache> layers;
  int context_length = 0;  // positions the model was trained for
  /// Numbers that a forward pass holds for each token where it holds most, without logits and cache.
  std::size_t activations_per_token = 0;
  std::size_t weight_bytes = 0;
  nn::BytesPerToken weight_bytes_per_token = {};  // of these
};

/// Built, used and destroyed on the engine thread.
class Model {
 public:
  virtual ~Model() = default;
  [[nodiscard]] virtual const ModelInfo& info() const = 0;

  /// One step: writes K and V of every token of context.batch into context.kv and returns the logits of
  /// batch.logit_rows, (num_logit_rows, vocab_size) float32, possibly not yet evaluated; sets context.finite_tokens.
  /// May throw what MLX throws.
  [[nodiscard]] virtual mx::array forward(nn::ForwardContext& context) = 0;
};

}  // namespace redpoll::models
