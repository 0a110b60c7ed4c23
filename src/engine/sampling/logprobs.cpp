#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cmath>

namespace redpoll::engine::sampling {
namespace {

/// The largest first, ties by ascending id, in one pass that keeps only the best so far.
std::vector<TokenId> find_top(std::span<const float> logits, std::size_t num_top) {
  std::vector<TokenId> top;
  num_top = std::min(num_top, logits.size());
  if (num_top == 0) return top;
  const auto logit = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  for (TokenId id = 0; static_cast<std::size_t>(id) < logits.size(); ++id) {
    if (top.size() == num_top) {
      if (!(logit(id) > logit(top.back()))) continue;
      top.pop_back();
    }
    const auto place = std::ranges::find_if(top, [&](TokenId other) { return logit(id) > logit(other); });
    top.insert(place, id);
  }
  return top;
}

}  // namespace

RowLogprobs compute_logprobs(std::span<const float> logits, TokenId id, int num_top) {
  const float max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(max));
  const double log_sum = static_cast<double>(max) + std::log(sum);

  const auto logprob = [&](TokenId token) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(token)]) - log_sum);
  };
  RowLogprobs row{.logprob = logprob(id), .top = {}};
  for (const TokenId token : find_top(logits, static_cast<std::size_t>(std::max(num_top, 0)))) {
    row.top.push_back({.id = token, .logprob = logprob(token)});
  }
  return row;
}

}  // namespace redpoll::engine::sampling
