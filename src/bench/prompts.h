// Prompts without meaning: token ids and words by seed, the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/token.h"

namespace redpoll::bench {

/// Every prompt differs from those before, so that no cache of prompts can answer.
class PromptSource {
 public:
  explicit PromptSource(std::uint64_t seed) : random_(seed) {}

  /// Ids in [0, vocab_size).
  [[nodiscard]] std::vector<TokenId> ids(int num_tokens, int vocab_size);
  /// Frequent English words, most of which are one token in most vocabularies, with blanks between.
  [[nodiscard]] std::string words(int num_words);

 private:
  std::mt19937_64 random_;
};

}  // namespace redpoll::bench
