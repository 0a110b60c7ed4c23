#include "engine/sampling/dry_penalty.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace redpoll::engine::sampling {
namespace {

constexpr double kMaxPenalty = 1e9;  // rules a token out, and is still a number

/// How many of the tokens come after the last whole occurrence of `breaker`; all if there is none. Read from the end,
/// as Knuth, Morris and Pratt do (1977): a client chooses both, so comparing at every place could take their product.
std::size_t tokens_after_last(std::span<const TokenId> breaker, std::span<const TokenId> tokens) {
  const std::size_t size = breaker.size();
  if (size == 0 || size > tokens.size()) return tokens.size();
  const auto wanted = [&](std::size_t i) { return breaker[size - 1 - i]; };
  // borders[i]: the longest proper prefix of the reversed breaker that also ends its first i + 1 tokens.
  std::vector<std::size_t> borders(size, 0);
  const auto extend = [&](std::size_t matched, TokenId next) {
    while (matched > 0 && wanted(matched) != next) matched = borders[matched - 1];
    return wanted(matched) == next ? matched + 1 : matched;
  };
  for (std::size_t i = 1; i < size; ++i) borders[i] = extend(borders[i - 1], wanted(i));
  std::size_t matched = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    matched = extend(matched, tokens[tokens.size() - 1 - i]);
    if (matched == size) return i + 1 - size;
  }
  return tokens.size();
}

/// How many tokens at the end come after the last whole occurrence of any breaker.
std::size_t tokens_after_last_breaker(const SamplingParams& params, std::span<const TokenId> tokens) {
  std::size_t left = tokens.size();
  for (const std::vector<TokenId>& breaker : params.dry_sequence_breakers) {
    left = std::min(left, tokens_after_last(breaker, tokens));
  }
  return left;
}

/// result[i] is the length of the longest common suffix of the first i tokens and all tokens: the Z function of the
/// reversed text, which takes one pass.
std::vector<std::size_t> common_suffix_lengths(std::span<const TokenId> tokens) {
  const std::size_t n = tokens.size();
  std::vector<std::size_t> lengths(n + 1, 0);
  const auto reversed = [&](std::size_t i) { return tokens[n - 1 - i]; };
  std::size_t begin = 0;  // the match that reaches furthest: [begin, end) of the reversed text
  std::size_t end = 0;
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = i < end ? std::min(end - i, lengths[n - (i - begin)]) : 0;
    while (i + length < n && reversed(length) == reversed(i + length)) ++length;
    if (i + length > end) {
      begin = i;
      end = i + length;
    }
    lengths[n - i] = length;
  }
  return lengths;
}

bool is_single_token_breaker(const SamplingParams& params, TokenId id) {
  return std::ranges::any_of(params.dry_sequence_breakers,
                             [&](const auto& breaker) { return breaker.size() == 1 && breaker.front() == id; });
}

}  // namespace

void apply_dry_penalty(std::span<float> logits, const SamplingParams& params, std::span<const TokenId> tokens) {
  const auto allowed = static_cast<std::size_t>(params.dry_allowed_length);
  const std::size_t longest = tokens_after_last_breaker(params, tokens);
  if (longest < allowed) return;

  const std::vector<std::size_t> suffixes = common_suffix_lengths(tokens);
  std::unordered_map<TokenId, std::size_t> match_lengths;  // by the token that would continue the match
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::size_t length = std::min(suffixes[i], longest);
    if (length < allowed || length == 0) continue;
    std::size_t& best = match_lengths[tokens[i]];
    best = std::max(best, length);
  }
  for (const auto& [id, length] : match_lengths) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size() || is_single_token_breaker(params, id)) continue;
    const double penalty = params.dry_multiplier * std::pow(params.dry_base, static_cast<double>(length - allowed));
    logits[static_cast<std::size_t>(id)] -= static_cast<float>(std::min(penalty, kMaxPenalty));
  }
}

}  // namespace redpoll::engine::sampling
