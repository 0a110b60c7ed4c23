// DRY ("don't repeat yourself"): lowers the logits of tokens that would continue a repetition, the more the longer it
// already is. After the proposal in text-generation-webui, pull request 5677.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "base/token.h"
#include "engine/sampling/suffix_automaton.h"
#include "engine/sampling_params.h"

namespace redpoll::engine::sampling {

/// If the last L tokens also stand earlier, followed by token t, then t would make it L + 1: with the largest such L at
/// least dry_allowed_length, t's logit is lowered by dry_multiplier * dry_base^(L - dry_allowed_length), by 1e9 at
/// most, and the exponent is 1024 at most. A match never contains a whole sequence breaker, and a breaker of one token
/// is never penalized. A token costs what its longest match and the tokens to be penalized cost, not what the text
/// does.
class DryPenalty {
 public:
  /// `params` must outlive it.
  explicit DryPenalty(const SamplingParams& params);

  void append(TokenId token);
  void apply(std::span<float> logits);

 private:
  struct Breaker {
    std::span<const TokenId> tokens;
    std::vector<int> borders;  // [i]: longest proper prefix that also ends the first i + 1 tokens
    int num_matched = 0;       // tokens of it that end the text
  };
  /// True if the whole breaker now ends the text.
  [[nodiscard]] static bool advance(Breaker& breaker, TokenId token);
  [[nodiscard]] static int longer_match(const Breaker& breaker, int num_matched, TokenId token);
  void penalize(std::span<float> logits, TokenId token, int length);

  const SamplingParams& params_;
  int longest_ = 0;  // no match counts for more
  std::vector<Breaker> breakers_;
  std::unordered_set<TokenId> single_token_breakers_;
  SuffixAutomaton text_;
  int num_since_breaker_ = 0;                                // tokens
  int num_matched_ = 0;                                      // min(tokens in all, longest_)
  SuffixAutomaton::State ending_ = SuffixAutomaton::kEmpty;  // of the last num_matched_ tokens
  std::unordered_set<TokenId> penalized_;                    // of the logits at hand
};

}  // namespace redpoll::engine::sampling
