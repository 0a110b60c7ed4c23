#include "engine/sampling/token_history.h"

namespace redpoll::engine::sampling {
namespace {

bool penalizes_counts(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0;
}

}  // namespace

bool uses_history(const SamplingParams& params) {
  return params.repetition_penalty != 1 || penalizes_counts(params) || params.dry_multiplier != 0;
}

TokenHistory::TokenHistory(const SamplingParams& params, std::size_t num_prompt_tokens)
    : params_(&params), num_prompt_tokens_(num_prompt_tokens) {}

void TokenHistory::follow(std::span<const TokenId> tokens) {
  if (!uses_history(*params_)) return;
  if (!is_intact_) reset();
  is_intact_ = false;
  if (params_->dry_multiplier != 0 && !dry_) dry_.emplace(*params_);
  for (; num_taken_ < tokens.size(); ++num_taken_) take(tokens, num_taken_);
  is_intact_ = true;
}

void TokenHistory::reset() {
  window_ = {};
  generated_ = {};
  dry_.reset();
  num_taken_ = 0;
}

void TokenHistory::take(std::span<const TokenId> tokens, std::size_t index) {
  const TokenId token = tokens[index];
  if (params_->repetition_penalty != 1) {
    const auto size = static_cast<std::size_t>(params_->repetition_context_size);
    window_.add(token);
    if (size > 0 && index >= size) window_.remove(tokens[index - size]);
  }
  if (index >= num_prompt_tokens_ && penalizes_counts(*params_)) generated_.add(token);
  if (dry_) dry_->append(token);
}

}  // namespace redpoll::engine::sampling
