// ContextLimit: how long a sequence may become, and the error for a prompt that is longer.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace redpoll::engine {

struct ContextLimit {
  int tokens = 0;        // of prompt and answer together
  int model_tokens = 0;  // what the model was trained for: more than `tokens` if memory or a flag lowered that
  bool is_set = false;   // by --context-length
};

/// kContextLengthExceeded, with both numbers and what to do. `shown` is what the prompt has: "33", "at least 33".
[[nodiscard]] Error context_length_exceeded(const ContextLimit& limit, std::size_t prompt_tokens,
                                            std::string_view shown);

}  // namespace redpoll::engine
