// TokenHistory: what the penalties know of a text, kept up to date token by token, so that a token costs no more at the
// end of a long text than at its beginning.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/token.h"
#include "engine/sampling/dry_penalty.h"
#include "engine/sampling/token_counts.h"
#include "engine/sampling_params.h"

namespace redpoll::engine::sampling {

/// False if no penalty looks at what has been written.
[[nodiscard]] bool uses_history(const SamplingParams& params);

/// One per sequence. Keeps only what `params`, which must outlive it, make use of.
class TokenHistory {
 public:
  /// The first `num_prompt_tokens` tokens are not generated.
  TokenHistory(const SamplingParams& params, std::size_t num_prompt_tokens);

  /// Takes in what `tokens`, prompt and generated, has beyond the last call's. After a call that has thrown, the next
  /// one starts from the beginning.
  void follow(std::span<const TokenId> tokens);

  /// Of the last repetition_context_size tokens.
  [[nodiscard]] const TokenCounts& window() const { return window_; }
  [[nodiscard]] const TokenCounts& generated() const { return generated_; }
  [[nodiscard]] std::optional<DryPenalty>& dry() { return dry_; }

 private:
  void reset();
  void take(std::span<const TokenId> tokens, std::size_t index);

  const SamplingParams* params_;
  std::size_t num_prompt_tokens_;
  std::size_t num_taken_ = 0;
  bool is_intact_ = true;
  TokenCounts window_;
  TokenCounts generated_;
  std::optional<DryPenalty> dry_;  // made when the first token is taken
};

}  // namespace redpoll::engine::sampling
