// EvictedPrompts: remembers of the last entries that the prompt cache gave up what they began with, so that it can be
// said of a prompt that it would have been found earlier. Hashes only: it can err, by less than one in 2^50 questions.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/token.h"

namespace redpoll::cache {

/// Used by one thread.
class EvictedPrompts {
 public:
  void note(std::span<const TokenId> tokens);
  /// How many of the first tokens one of them had, in steps of 32.
  [[nodiscard]] int longest(std::span<const TokenId> tokens) const;

 private:
  std::deque<std::vector<std::uint64_t>> beginnings_;  // of each, hashes of its first 32, 64, ... tokens
};

}  // namespace redpoll::cache
