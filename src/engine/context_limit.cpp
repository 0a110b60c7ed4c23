#include "engine/context_limit.h"

#include <string>

namespace redpoll::engine {

Error context_length_exceeded(const ContextLimit& limit, std::size_t prompt_tokens, std::string_view shown) {
  const bool would_fit =
      limit.tokens < limit.model_tokens && prompt_tokens <= static_cast<std::size_t>(limit.model_tokens);
  const std::string lever = limit.is_set ? "--context-length" : "--memory-budget";
  const std::string remedy = would_fit ? "shorten it or raise " + lever : "shorten it";
  const bool is_memory = !limit.is_set && limit.tokens < limit.model_tokens;
  const std::string whose =
      is_memory ? "the context that fits into this server's memory budget is " : "this model's context is ";
  return {.code = ErrorCode::kContextLengthExceeded,
          .message = whose + std::to_string(limit.tokens) + " tokens, but the prompt has " + std::string(shown) + "; " +
                     remedy,
          .param = {}};
}

}  // namespace redpoll::engine
