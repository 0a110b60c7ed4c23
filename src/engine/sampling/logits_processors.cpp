#include "engine/sampling/logits_processors.h"

#include <algorithm>
#include <limits>

#include "engine/sampling/dry_penalty.h"

namespace redpoll::engine::sampling {
namespace {

/// The logit of a token, or nullptr if the vocabulary lacks it.
float* find_logit(std::span<float> logits, TokenId id) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size() ? &logits[static_cast<std::size_t>(id)] : nullptr;
}

/// Keskar et al., 2019 (CTRL): divides positive logits of tokens in the window by the penalty, multiplies negative
/// ones; once per token however often it occurs.
void penalize_repetition(std::span<float> logits, const SamplingParams& params, std::span<const TokenId> tokens) {
  const auto window_size = static_cast<std::size_t>(params.repetition_context_size);
  const std::span<const TokenId> window = window_size == 0 ? tokens : tokens.last(std::min(window_size, tokens.size()));
  std::vector<TokenId> distinct(window.begin(), window.end());
  std::ranges::sort(distinct);
  const auto repeated = std::ranges::unique(distinct);
  distinct.erase(repeated.begin(), repeated.end());
  for (const TokenId id : distinct) {
    float* logit = find_logit(logits, id);
    if (logit == nullptr) continue;
    *logit = *logit < 0 ? *logit * params.repetition_penalty : *logit / params.repetition_penalty;
  }
}

void penalize_counts(std::span<float> logits, const SamplingParams& params,
                     const std::unordered_map<TokenId, int>& counts) {
  for (const auto& [id, count] : counts) {
    float* logit = find_logit(logits, id);
    if (logit == nullptr) continue;
    *logit -= params.presence_penalty;
    *logit -= params.frequency_penalty * static_cast<float>(count);
  }
}

}  // namespace

bool has_no_processors(const SamplingParams& params) {
  return params.logit_bias.empty() && params.repetition_penalty == 1 && params.presence_penalty == 0 &&
         params.frequency_penalty == 0 && params.dry_multiplier == 0;
}

void apply_logits_processors(std::span<float> logits, const SamplingParams& params, const TokenHistory& history) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (float* logit = find_logit(logits, id)) *logit += bias;
  }
  if (params.repetition_penalty != 1) penalize_repetition(logits, params, history.tokens);
  if ((params.presence_penalty != 0 || params.frequency_penalty != 0) && history.generated_counts != nullptr) {
    penalize_counts(logits, params, *history.generated_counts);
  }
  if (params.dry_multiplier != 0) apply_dry_penalty(logits, params, history.tokens);
}

void mask_tokens(std::span<float> logits, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (float* logit = find_logit(logits, id)) *logit = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace redpoll::engine::sampling
