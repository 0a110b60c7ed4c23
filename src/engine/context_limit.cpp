#include "engine/context_limit.h"

#include <string>

namespace redpoll::engine {

Error context_length_exceeded(const ContextLimit& limit, std::string_view prompt_length) {
  const std::string remedy = limit.tokens < limit.model_tokens ? "shorten it or raise --context-length" : "shorten it";
  return {.code = ErrorCode::kContextLengthExceeded,
          .message = "this model's context is " + std::to_string(limit.tokens) + " tokens, but the prompt has " +
                     std::string(prompt_length) + "; " + remedy,
          .param = {}};
}

}  // namespace redpoll::engine
