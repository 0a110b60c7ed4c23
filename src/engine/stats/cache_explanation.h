// How far the prompt cache would take a prompt, and why no further.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace redpoll::engine {

enum class CacheStop {
  kOff,             // there is no prompt cache
  kScoresPrompt,    // who wants its prompt's logprobs computes all of it
  kEndOfPrompt,     // everything but the last token, which is always computed
  kDifferent,       // what is cached goes on with another token
  kNoSnapshot,      // more is cached, but layers with windows or states can go on from few places only
  kEvicted,         // more was cached and has been given up
  kOtherNamespace,  // another model, or the same with other options, has left more of the prompt on disk
  kNothingCached,   // no prompt that begins so has been seen, or what is cached ends here
};

/// What decides how much a request takes from the prompt cache.
struct CacheQuery {
  std::vector<TokenId> prompt;
  bool prompt_logprobs = false;
};

/// Numbers of tokens, from the prompt's first on.
struct CacheExplanation {
  int prompt_tokens = 0;
  int memory_tokens = 0;   // that would be found in memory
  int disk_tokens = 0;     // and on disk, if that is more
  int common_tokens = 0;   // that some entry in memory has in common, whether it can be gone on from there or not
  int evicted_tokens = 0;  // that entries had which are gone, about
  CacheStop stop = CacheStop::kOff;
  std::optional<TokenId> cached_token = std::nullopt;  // kDifferent: what is cached instead of the prompt's next token
  std::string cache_namespace = {};                    // on disk: of the model and of how its cache is laid out
  std::string other_namespace = {};                    // whose files on disk have most of the prompt; empty: none
  int other_tokens = 0;                                // that these have

  [[nodiscard]] int cached_tokens() const { return memory_tokens > disk_tokens ? memory_tokens : disk_tokens; }
};

}  // namespace redpoll::engine
