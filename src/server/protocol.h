// Protocol: the three places where the APIs that generate text differ. Everything between them is one session.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "api/stream_format.h"
#include "base/error.h"
#include "base/json.h"
#include "server/app_context.h"
#include "server/generation.h"

namespace redpoll::server {

struct PreparedRequest {
  PreparedGeneration generation;
  std::vector<std::string> warnings;  // unknown fields
};

struct Protocol {
  std::string_view endpoint;  // the label in metrics

  /// From the body to prompts of token ids, on a worker.
  Result<PreparedRequest> (*prepare)(const AppContext& context, const json::value& body);
  std::unique_ptr<api::StreamFormat> (*make_stream)(const api::AnswerHead& head, const api::GenerationOptions& options);
  std::string (*format_answer)(const api::AnswerHead& head, const api::GenerationOptions& options,
                               const api::Answer& answer);
};

/// POST /v1/chat/completions and /v1/completions.
[[nodiscard]] const Protocol& openai_chat_protocol();
[[nodiscard]] const Protocol& openai_completions_protocol();

}  // namespace redpoll::server
