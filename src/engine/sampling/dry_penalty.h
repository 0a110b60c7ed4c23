// DRY ("don't repeat yourself"): lowers the logits of tokens that would continue a repetition, the more the longer it
// already is. After the proposal in text-generation-webui, pull request 5677.
#pragma once

#include <span>

#include "base/token.h"
#include "engine/sampling_params.h"

namespace redpoll::engine::sampling {

/// If the last L tokens also stand earlier, followed by token t, then t would make it L + 1: with the largest such L at
/// least dry_allowed_length, t's logit is lowered by dry_multiplier * dry_base^(L - dry_allowed_length). A match never
/// contains a whole sequence breaker, and a breaker of one token is never penalized. O(tokens) a call for each breaker.
void apply_dry_penalty(std::span<float> logits, const SamplingParams& params, std::span<const TokenId> tokens);

}  // namespace redpoll::engine::sampling
