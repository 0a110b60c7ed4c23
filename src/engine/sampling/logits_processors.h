// Logits processors: what is done to a row of logits before a token is chosen from it: biases, penalties, stop ids that
// may not come yet. Plain host arithmetic.
#pragma once

#include <span>

#include "base/token.h"
#include "engine/sampling/token_history.h"
#include "engine/sampling_params.h"

namespace redpoll::engine::sampling {

/// False if apply_logits_processors would leave any row as it is.
[[nodiscard]] bool has_processors(const SamplingParams& params);

/// logit_bias, repetition, presence, frequency, DRY, in this order, in place. Ids outside the vocabulary are ignored.
void apply_logits_processors(std::span<float> logits, const SamplingParams& params, TokenHistory& history);

/// Rules these tokens out.
void mask_tokens(std::span<float> logits, std::span<const TokenId> ids);

}  // namespace redpoll::engine::sampling
