// The sampler written the plain way: every filter sorts the whole vocabulary. Slow, and easy to check by eye.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/sampling/sampler.h"

namespace redpoll::test {

struct OracleToken {
  TokenId id;
  double probability;  // of the model's distribution, not renormalized by filters
  float logit;
};

inline std::vector<OracleToken> sorted_softmax(const std::vector<float>& logits) {
  const double max = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - max);
  std::vector<OracleToken> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(logits[i])) continue;
    tokens.push_back({static_cast<TokenId>(i), std::exp(static_cast<double>(logits[i]) - max) / total, logits[i]});
  }
  std::ranges::sort(
      tokens, [](const auto& a, const auto& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); });
  return tokens;
}

inline double mass_of(const std::vector<OracleToken>& tokens) {
  double mass = 0;
  for (const auto& token : tokens) mass += token.probability;
  return mass;
}

inline void oracle_top_p(std::vector<OracleToken>& tokens, double top_p) {
  double above = 0;
  std::size_t kept = 0;
  for (; kept < tokens.size() && (kept == 0 || above < top_p); ++kept) above += tokens[kept].probability;
  while (kept < tokens.size() && tokens[kept].logit == tokens[kept - 1].logit) ++kept;
  tokens.resize(kept);
}

inline void oracle_typical_p(std::vector<OracleToken>& tokens, double typical_p) {
  const double mass = mass_of(tokens);
  double entropy = 0;
  for (const auto& token : tokens) entropy -= token.probability / mass * std::log(token.probability / mass);
  const auto deviation = [&](const OracleToken& t) { return std::abs(-std::log(t.probability / mass) - entropy); };
  std::ranges::sort(tokens, [&](const auto& a, const auto& b) {
    return std::tuple(deviation(a), -a.logit, a.id) < std::tuple(deviation(b), -b.logit, b.id);
  });
  double sum = 0;
  std::size_t kept = 0;
  for (; kept < tokens.size() && (kept == 0 || sum < typical_p); ++kept) sum += tokens[kept].probability / mass;
  tokens.resize(kept);
  std::ranges::sort(
      tokens, [](const auto& a, const auto& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); });
}

inline void oracle_xtc(std::vector<OracleToken>& tokens, double threshold, const std::vector<TokenId>& immune) {
  const double mass = mass_of(tokens);
  std::optional<float> least;
  for (const auto& token : tokens) {
    if (token.probability / mass > threshold) least = token.logit;  // they are sorted
  }
  if (!least) return;
  std::erase_if(tokens, [&](const auto& t) { return t.logit > *least && std::ranges::count(immune, t.id) == 0; });
}

/// What is left of a row after all filters, likeliest first.
inline std::vector<OracleToken> oracle_filter(const std::vector<float>& logits, const engine::SamplingParams& params,
                                              bool xtc_applies, const std::vector<TokenId>& immune) {
  auto tokens = sorted_softmax(logits);
  if (params.top_p < 1) oracle_top_p(tokens, params.top_p);
  if (params.min_p > 0) {
    const auto least =
        static_cast<float>(static_cast<double>(tokens.front().logit) + std::log(static_cast<double>(params.min_p)));
    std::erase_if(tokens, [&](const auto& t) { return t.logit < least; });
  }
  if (params.typical_p < 1) oracle_typical_p(tokens, params.typical_p);
  if (xtc_applies) oracle_xtc(tokens, params.xtc_threshold, immune);
  if (params.top_k > 0 && tokens.size() > static_cast<std::size_t>(params.top_k)) {
    tokens.resize(static_cast<std::size_t>(params.top_k));
  }
  return tokens;
}

inline TokenId oracle_draw(const std::vector<OracleToken>& tokens, double temperature, double uniform) {
  std::vector<double> weights;
  double total = 0;
  for (const auto& token : tokens) {
    weights.push_back(std::exp(static_cast<double>(token.logit - tokens.front().logit) / temperature));
    total += weights.back();
  }
  double sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += weights[i];
    if (sum > uniform * total) return tokens[i].id;
  }
  return tokens.front().id;
}

}  // namespace redpoll::test
