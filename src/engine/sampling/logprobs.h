// Log-probabilities of the model's own distribution: a log-softmax over raw logits, before penalties and filters.
#pragma once

#include <span>
#include <vector>

#include "engine/request.h"

namespace redpoll::engine::sampling {

struct RowLogprobs {
  float logprob = 0;              // of the token asked for
  std::vector<TokenLogprob> top;  // descending; ties by ascending id
};

/// `logits` (vocab_size) finite; `id` in the vocabulary. The token's value equals its entry in `top` to the bit.
[[nodiscard]] RowLogprobs compute_logprobs(std::span<const float> logits, TokenId id, int num_top);

}  // namespace redpoll::engine::sampling
