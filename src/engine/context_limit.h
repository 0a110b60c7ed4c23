// ContextLimit: how long a sequence may become, and the error for a prompt that is longer.
#pragma once

#include <string_view>

#include "base/error.h"

namespace redpoll::engine {

struct ContextLimit {
  int tokens = 0;        // of prompt and answer together
  int model_tokens = 0;  // what the model was trained for: more than `tokens` if memory or a flag lowered that
};

/// kContextLengthExceeded, with both numbers and what to do. `prompt_length` is the prompt's, in words: "33".
[[nodiscard]] Error context_length_exceeded(const ContextLimit& limit, std::string_view prompt_length);

}  // namespace redpoll::engine
