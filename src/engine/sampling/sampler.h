// Sampler: chooses the next token from one row of logits. Knows neither sequences nor devices.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/logits_processors.h"
#include "engine/sampling/random.h"
#include "engine/sampling_params.h"

namespace redpoll::engine::sampling {

/// What a choice depends on besides the logits.
struct SamplingContext {
  const SamplingParams& params;
  TokenHistory& history;  // follows what has been written
  DrawKey key;
  std::span<const TokenId> stop_ids;
  bool may_stop = true;  // false: stop ids are ruled out
};

/// Keeps buffers from row to row; a choice depends on the arguments alone. Used by the engine thread only.
class Sampler {
 public:
  /// `logits` (vocab_size) as the model gave them. kInternal when they are not all finite, kInvalidArgument when biases
  /// and stop ids leave nothing to choose from. Greedy ties go to the lowest id.
  [[nodiscard]] Result<TokenId> sample(std::span<const float> logits, const SamplingContext& context);

 private:
  [[nodiscard]] Result<TokenId> draw(std::span<const float> logits, const SamplingContext& context);

  std::vector<float> processed_;
  std::vector<TokenId> immune_;
  Candidates candidates_;
};

/// For the request whose logits are not.
[[nodiscard]] Error not_finite_error();

}  // namespace redpoll::engine::sampling
