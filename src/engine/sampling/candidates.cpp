#include "engine/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace redpoll::engine::sampling {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

}  // namespace

bool Candidates::assign(std::span<const float> logits) {
  items_.clear();
  num_sorted_ = 0;
  max_logit_ = kImpossible;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kImpossible) continue;
    items_.push_back({.id = static_cast<TokenId>(i), .logit = logits[i]});
    max_logit_ = std::max(max_logit_, logits[i]);
  }
  return !items_.empty();
}

double Candidates::weight(const Candidate& candidate) const {
  return std::exp(static_cast<double>(candidate.logit) - static_cast<double>(max_logit_));
}

double Candidates::total_weight() const {
  double total = 0;
  for (const Candidate& candidate : items_) total += weight(candidate);
  return total;
}

const Candidate& Candidates::nth_likeliest(std::size_t index) {
  // Probability falls off fast, so the likeliest few are found by their distance to the maximum, in windows that
  // widen: one cheap pass each instead of a sort of the whole vocabulary.
  constexpr float kFirstWindow = 4;
  for (float window = kFirstWindow; num_sorted_ <= index; window *= 2) {
    const auto unsorted = items_.begin() + static_cast<std::ptrdiff_t>(num_sorted_);
    const float least = std::isfinite(window) ? max_logit_ - window : kImpossible;
    const auto end = std::partition(unsorted, items_.end(), [&](const Candidate& c) { return c.logit >= least; });
    std::sort(unsorted, end, is_likelier);
    num_sorted_ = static_cast<std::size_t>(end - items_.begin());
  }
  return items_[index];
}

void Candidates::keep_top_p(double top_p) {
  const double enough = top_p * total_weight();
  double mass = 0;
  float least = max_logit_;
  for (std::size_t i = 0; i < items_.size() && (i == 0 || mass < enough); ++i) {
    const Candidate& next = nth_likeliest(i);
    least = next.logit;
    mass += weight(next);
  }
  drop_below(least);
}

void Candidates::keep_min_p(double min_p) {
  drop_below(static_cast<float>(static_cast<double>(max_logit_) + std::log(min_p)));
}

void Candidates::drop_below(float least) {
  std::erase_if(items_, [&](const Candidate& c) { return c.logit < least; });
  // The unsorted ones are less likely than all sorted ones: if any of those went, nothing unsorted is left.
  num_sorted_ = std::min(num_sorted_, items_.size());
}

void Candidates::keep_typical_p(double typical_p) {
  struct Surprise {
    double deviation;  // |-log p - entropy|, in nats
    Candidate candidate;
  };
  const double log_total = std::log(total_weight());
  const auto log_p = [&](const Candidate& c) {
    return static_cast<double>(c.logit) - static_cast<double>(max_logit_) - log_total;
  };
  double entropy = 0;
  for (const Candidate& c : items_) entropy -= std::exp(log_p(c)) * log_p(c);

  std::vector<Surprise> surprises;
  surprises.reserve(items_.size());
  for (const Candidate& c : items_) surprises.push_back({.deviation = std::abs(-log_p(c) - entropy), .candidate = c});
  // A heap, because few are taken of many.
  const auto comes_later = [](const Surprise& a, const Surprise& b) {
    return a.deviation > b.deviation || (a.deviation == b.deviation && is_likelier(b.candidate, a.candidate));
  };
  std::ranges::make_heap(surprises, comes_later);

  items_.clear();
  num_sorted_ = 0;
  double mass = 0;
  while (!surprises.empty() && (items_.empty() || mass < typical_p)) {
    std::ranges::pop_heap(surprises, comes_later);
    items_.push_back(surprises.back().candidate);
    mass += std::exp(log_p(surprises.back().candidate));
    surprises.pop_back();
  }
  max_logit_ = std::ranges::max(items_, {}, &Candidate::logit).logit;
}

void Candidates::remove_top_choices(double threshold, std::span<const TokenId> immune) {
  const double needed = threshold * total_weight();
  float least = std::numeric_limits<float>::infinity();  // of the tokens above the threshold
  for (const Candidate& c : items_) {
    if (weight(c) > needed) least = std::min(least, c.logit);
  }
  const auto removed = std::erase_if(
      items_, [&](const Candidate& c) { return c.logit > least && std::ranges::find(immune, c.id) == immune.end(); });
  if (removed == 0) return;
  num_sorted_ = 0;
  max_logit_ = std::ranges::max(items_, {}, &Candidate::logit).logit;
}

void Candidates::keep_top_k(std::size_t top_k) {
  if (top_k >= items_.size()) return;
  if (top_k > num_sorted_) {
    const auto unsorted = items_.begin() + static_cast<std::ptrdiff_t>(num_sorted_);
    std::nth_element(unsorted, items_.begin() + static_cast<std::ptrdiff_t>(top_k), items_.end(), is_likelier);
  }
  items_.resize(top_k);
  num_sorted_ = std::min(num_sorted_, top_k);
}

TokenId Candidates::draw(double temperature, double uniform) {
  const auto tempered = [&](const Candidate& c) {
    return std::exp((static_cast<double>(c.logit) - static_cast<double>(max_logit_)) / temperature);
  };
  double total = 0;
  for (const Candidate& c : items_) total += tempered(c);

  const double target = uniform * total;
  double sum = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    sum += tempered(nth_likeliest(i));
    if (sum > target) return items_[i].id;
  }
  return nth_likeliest(0).id;  // rounding left the sum a hair short of the total
}

}  // namespace redpoll::engine::sampling
