// StreamFormat: the JSON of a streamed answer, one function per moment of a stream. The session calls it; each
// protocol implements it. It knows nothing of SSE framing: the caller adds "data: " and, at the end, "[DONE]".
#pragma once

#include <span>
#include <string>

#include "api/answer.h"
#include "base/token.h"

namespace redpoll::api {

/// Lives as long as one stream; not thread-safe. For each choice: `start`, any number of `delta`, one `finish`; after
/// all choices `usage`. An empty string means that the protocol sends nothing at that moment.
class StreamFormat {
 public:
  virtual ~StreamFormat() = default;
  /// `prompt_token_ids` are shown when the request asked for token ids.
  [[nodiscard]] virtual std::string start(int choice, std::span<const TokenId> prompt_token_ids) = 0;
  [[nodiscard]] virtual std::string delta(const ChoiceDelta& delta) = 0;
  [[nodiscard]] virtual std::string finish(const ChoiceEnd& end) = 0;
  /// Of the whole request; empty unless the request asked for it.
  [[nodiscard]] virtual std::string usage(const Usage& usage) = 0;
};

}  // namespace redpoll::api
