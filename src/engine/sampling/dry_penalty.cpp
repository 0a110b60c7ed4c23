#include "engine/sampling/dry_penalty.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace redpoll::engine::sampling {
namespace {

constexpr double kMaxPenalty = 1e9;  // rules a token out, and is still a number
constexpr int kMaxExcess = 1024;

double penalty_of(const SamplingParams& params, int length) {
  const double excess = static_cast<double>(length) - params.dry_allowed_length;
  return std::min(params.dry_multiplier * std::pow(static_cast<double>(params.dry_base), excess), kMaxPenalty);
}

/// From this length on, matches are penalized alike.
int longest_that_matters(const SamplingParams& params) {
  const int most = std::min(params.dry_allowed_length, std::numeric_limits<int>::max() - kMaxExcess) + kMaxExcess;
  int length = params.dry_allowed_length;
  while (length < most && penalty_of(params, length) < penalty_of(params, length + 1)) ++length;
  return length;
}

}  // namespace

DryPenalty::DryPenalty(const SamplingParams& params) : params_(params), longest_(longest_that_matters(params)) {
  for (const std::vector<TokenId>& tokens : params.dry_sequence_breakers) {
    if (tokens.empty()) continue;
    if (tokens.size() == 1) single_token_breakers_.insert(tokens.front());
    Breaker& breaker = breakers_.emplace_back(Breaker{.tokens = tokens, .borders = {0}});
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      breaker.borders.push_back(longer_match(breaker, breaker.borders.back(), tokens[i]));
    }
  }
}

/// As Knuth, Morris and Pratt do (1977): a client chooses both text and breakers, so comparing at every place could
/// take their product.
int DryPenalty::longer_match(const Breaker& breaker, int num_matched, TokenId token) {
  while (num_matched > 0 && breaker.tokens[static_cast<std::size_t>(num_matched)] != token) {
    num_matched = breaker.borders[static_cast<std::size_t>(num_matched) - 1];
  }
  return breaker.tokens[static_cast<std::size_t>(num_matched)] == token ? num_matched + 1 : num_matched;
}

bool DryPenalty::advance(Breaker& breaker, TokenId token) {
  breaker.num_matched = longer_match(breaker, breaker.num_matched, token);
  if (static_cast<std::size_t>(breaker.num_matched) < breaker.tokens.size()) return false;
  breaker.num_matched = breaker.borders.back();
  return true;
}

void DryPenalty::append(TokenId token) {
  text_.append(token);
  ending_ = text_.follow(text_.shorten(ending_, num_matched_), token);
  num_matched_ = std::min(num_matched_ + 1, longest_);
  ending_ = text_.shorten(ending_, num_matched_);

  ++num_since_breaker_;
  for (Breaker& breaker : breakers_) {
    if (advance(breaker, token)) num_since_breaker_ = 0;
  }
}

void DryPenalty::apply(std::span<float> logits) {
  penalized_.clear();
  int length = std::min(num_matched_, num_since_breaker_);
  // From the longest ending to the shortest: what has come after it has come after its own endings, too.
  for (auto state = text_.shorten(ending_, length);
       length >= params_.dry_allowed_length && state != SuffixAutomaton::kEmpty;
       state = text_.suffix_of(state), length = text_.length(state)) {
    text_.for_each_continuation(state, [&](TokenId token) {
      if (penalized_.insert(token).second) penalize(logits, token, length);
    });
  }
}

void DryPenalty::penalize(std::span<float> logits, TokenId token, int length) {
  if (token < 0 || static_cast<std::size_t>(token) >= logits.size() || single_token_breakers_.contains(token)) return;
  logits[static_cast<std::size_t>(token)] -= static_cast<float>(penalty_of(params_, length));
}

}  // namespace redpoll::engine::sampling
