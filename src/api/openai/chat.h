// POST /v1/chat/completions of the OpenAI API: request JSON to ChatRequest, answers to JSON. Text only.
#pragma once

#include <string>

#include "api/answer.h"
#include "api/generation.h"
#include "api/stream_format.h"
#include "base/error.h"

namespace redpoll::api::openai {

/// Errors are kInvalidArgument, or kUnsupported for what is understood but cannot be honoured; `param` names the field.
[[nodiscard]] Result<ChatRequest> parse_chat_request(const json::value& body, const RequestLimits& limits);

/// The `chat.completion` object.
[[nodiscard]] std::string format_chat_answer(const AnswerHead& head, const GenerationOptions& options,
                                             const Answer& answer);

/// The `chat.completion.chunk` objects: the role, then deltas of content and tool calls (each whole), then a delta with
/// the finish reason and the timings of the choice, then (with include_usage) usage with no choices.
class ChatStream final : public StreamFormat {
 public:
  ChatStream(const AnswerHead& head, const GenerationOptions& options);

  [[nodiscard]] std::string start(int choice, std::span<const TokenId> prompt_token_ids) override;
  [[nodiscard]] std::string delta(const ChoiceDelta& delta) override;
  [[nodiscard]] std::string finish(const ChoiceEnd& end) override;
  [[nodiscard]] std::string usage(const Usage& usage) override;

 private:
  std::string prefix_;  // from "{" to the comma before "choices"
  bool with_logprobs_;
  bool with_token_ids_;
  bool with_usage_;
};

}  // namespace redpoll::api::openai
