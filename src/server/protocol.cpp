#include "server/protocol.h"

#include "api/errors.h"
#include "api/openai/chat.h"
#include "api/openai/completions.h"
#include "server/prepare.h"

namespace redpoll::server {
namespace {

Result<PreparedRequest> prepare_openai_chat(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(api::ChatRequest request, api::openai::parse_chat_request(body, context.limits()));
  RETURN_IF_ERROR(api::check_model(request.model, context.model->id));
  const int num_volatile_lines = leave_out_volatile_lines(context.options.volatile_lines, request.conversation);
  ASSIGN_OR_RETURN(PreparedGeneration generation, prepare_chat(*context.model, context.options.defaults, request));
  generation.num_volatile_lines = num_volatile_lines;
  return PreparedRequest{std::move(generation), std::move(request.warnings)};
}

Result<PreparedRequest> prepare_openai_completion(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(api::CompletionRequest request, api::openai::parse_completion_request(body, context.limits()));
  RETURN_IF_ERROR(api::check_model(request.model, context.model->id));
  ASSIGN_OR_RETURN(PreparedGeneration generation,
                   prepare_completion(*context.model, context.options.defaults, request));
  return PreparedRequest{std::move(generation), std::move(request.warnings)};
}

template <typename Stream>
std::unique_ptr<api::StreamFormat> make_stream(const api::AnswerHead& head, const api::GenerationOptions& options) {
  return std::make_unique<Stream>(head, options);
}

}  // namespace

const Protocol& openai_chat_protocol() {
  static constexpr Protocol kProtocol{"chat", prepare_openai_chat, make_stream<api::openai::ChatStream>,
                                      api::openai::format_chat_answer};
  return kProtocol;
}

const Protocol& openai_completions_protocol() {
  static constexpr Protocol kProtocol{"completions", prepare_openai_completion,
                                      make_stream<api::openai::CompletionStream>,
                                      api::openai::format_completion_answer};
  return kProtocol;
}

}  // namespace redpoll::server
