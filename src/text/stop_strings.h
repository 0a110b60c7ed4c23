// StopStringMatcher: finds the first of a few strings in text that arrives in pieces, and lets through only what cannot
// be part of one. The result depends on the text alone, never on how it was cut.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace redpoll::text {

/// One per choice of a request; not for several threads at once. Costs O(number of strings) per byte.
class StopStringMatcher {
 public:
  struct Output {
    std::string text;            // safe to show
    std::optional<int> matched;  // index of the stop string found; nothing comes out any more
  };

  /// Empty strings are passed over.
  explicit StopStringMatcher(std::vector<std::string> stop_strings);

  /// The match is the stop string that is complete first; of two that end together, the longer. Its own text and all
  /// that follows is dropped.
  [[nodiscard]] Output push(std::string_view text);
  /// What was held back because it began like a stop string; empty after a match. Starts afresh.
  [[nodiscard]] std::string flush();

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;  // Knuth-Morris-Pratt: the longest border of each prefix
    std::size_t matched = 0;            // bytes of `text` that the input ends with
  };
  static void advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<int> found_;
};

}  // namespace redpoll::text
