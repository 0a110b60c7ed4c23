// POST /v1/completions of the OpenAI API: prompts as text or token ids without a chat template, with echo and logprobs
// in the legacy shape, so that scoring tools work.
#pragma once

#include <string>

#include "api/answer.h"
#include "api/generation.h"
#include "api/stream_format.h"
#include "base/error.h"

namespace redpoll::api::openai {

/// What OpenAI generates when neither request nor flags say how much.
inline constexpr int kDefaultCompletionTokens = 16;

/// Errors are kInvalidArgument, or kUnsupported for what is understood but cannot be honoured; `param` names the field.
/// A scoring request (echo, logprobs, max_tokens 1) gets min_tokens 1: its clients drop the last entry of the answer,
/// expecting it to be a generated token, which an immediate end of text would not leave there.
[[nodiscard]] Result<CompletionRequest> parse_completion_request(const json::value& body, const RequestLimits& limits);

/// The `text_completion` object. `prompt_token_ids` are in each choice and, with one prompt, at the top as well.
[[nodiscard]] std::string format_completion_answer(const AnswerHead& head, const GenerationOptions& options,
                                                   const Answer& answer);

/// The streamed `text_completion` objects. `start` sends something only when token ids were asked for.
class CompletionStream final : public StreamFormat {
 public:
  CompletionStream(const AnswerHead& head, const GenerationOptions& options);

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
