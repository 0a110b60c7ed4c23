#include "engine/sampling/logits_processors.h"

#include <limits>

namespace redpoll::engine::sampling {
namespace {

/// The logit of a token, or nullptr if the vocabulary lacks it.
float* find_logit(std::span<float> logits, TokenId id) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size() ? &logits[static_cast<std::size_t>(id)] : nullptr;
}

/// Keskar et al., 2019 (CTRL): divides positive logits of tokens in the window by the penalty, multiplies negative
/// ones; once per token however often it occurs.
void penalize_repetition(std::span<float> logits, const SamplingParams& params, const TokenCounts& window) {
  for (const auto& [id, count] : window.entries()) {
    float* logit = find_logit(logits, id);
    if (logit == nullptr) continue;
    *logit = *logit < 0 ? *logit * params.repetition_penalty : *logit / params.repetition_penalty;
  }
}

void penalize_counts(std::span<float> logits, const SamplingParams& params, const TokenCounts& generated) {
  for (const auto& [id, count] : generated.entries()) {
    float* logit = find_logit(logits, id);
    if (logit == nullptr) continue;
    *logit -= params.presence_penalty;
    *logit -= params.frequency_penalty * static_cast<float>(count);
  }
}

}  // namespace

bool has_processors(const SamplingParams& params) { return !params.logit_bias.empty() || uses_history(params); }

void apply_logits_processors(std::span<float> logits, const SamplingParams& params, TokenHistory& history) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (float* logit = find_logit(logits, id)) *logit += bias;
  }
  penalize_repetition(logits, params, history.window());
  penalize_counts(logits, params, history.generated());
  if (history.dry()) history.dry()->apply(logits);
}

void mask_tokens(std::span<float> logits, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (float* logit = find_logit(logits, id)) *logit = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace redpoll::engine::sampling
