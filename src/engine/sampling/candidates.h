// Candidates: the tokens that may still be chosen, and the filters that make them fewer. A filter sees the distribution
// before temperature: softmax of the logits of those that are left.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/token.h"

namespace redpoll::engine::sampling {

struct Candidate {
  TokenId id = 0;
  float logit = 0;
};

/// The order in which candidates are counted wherever order matters: likeliest first, ties by ascending id.
[[nodiscard]] inline bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Reused from row to row, to keep its memory. Filters keep at least one candidate. Nothing sorts more of the
/// vocabulary than it needs to look at.
class Candidates {
 public:
  /// All tokens but those ruled out (-inf). False if none is left.
  [[nodiscard]] bool assign(std::span<const float> logits);

  /// The likeliest tokens that together reach `top_p` of the probability; with all that tie with the last of them.
  void keep_top_p(double top_p);
  /// Those at least `min_p` times as likely as the likeliest.
  void keep_min_p(double min_p);
  /// Meister et al., 2022: those whose surprise is closest to the expected one, until they reach `typical_p`.
  void keep_typical_p(double typical_p);
  /// "Exclude top choices": of the tokens likelier than `threshold`, only the least likely stays, and the immune ones.
  void remove_top_choices(double threshold, std::span<const TokenId> immune);
  void keep_top_k(std::size_t top_k);

  /// The first candidate, in order of likelihood, at which the running sum of exp(logit / temperature) exceeds the
  /// fraction `uniform` of the total.
  [[nodiscard]] TokenId draw(double temperature, double uniform);

 private:
  /// exp(logit - max): in proportion to the probability.
  [[nodiscard]] double weight(const Candidate& candidate) const;
  [[nodiscard]] double total_weight() const;
  void drop_below(float least);
  /// The candidate at this place in order of likelihood; sorts as far as that and a little further.
  [[nodiscard]] const Candidate& nth_likeliest(std::size_t index);

  std::vector<Candidate> items_;
  float max_logit_ = 0;
  std::size_t num_sorted_ = 0;  // items_[0, num_sorted_) are the likeliest, in order
};

}  // namespace redpoll::engine::sampling
