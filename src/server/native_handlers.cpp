#include "server/native_handlers.h"

#include "api/errors.h"
#include "api/native.h"
#include "server/prepare.h"
#include "server/responses.h"

namespace redpoll::server {
namespace {

Result<http::Response> tokenize(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(api::TokenizeRequest request, api::parse_tokenize_request(body));
  RETURN_IF_ERROR(api::check_model(request.model, context.model->id));
  const ServedModel& model = *context.model;
  std::string text;
  if (auto* conversation = std::get_if<api::Conversation>(&request.input)) {
    leave_out_volatile_lines(context.options.volatile_lines, *conversation);
    ASSIGN_OR_RETURN(text, render_conversation(model, *conversation));
  } else {
    text = std::get<std::string>(request.input);
  }
  ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                   model.tokenizer->encode(text, {.add_special_tokens = request.add_special}));
  std::vector<api::TokenPiece> pieces;
  pieces.reserve(ids.size());
  for (const TokenId id : ids)
    pieces.push_back({id, request.with_pieces ? model.tokenizer->token_bytes(id) : std::string()});
  return json_response(api::format_tokens(pieces, request.with_pieces), request.warnings);
}

Result<http::Response> detokenize(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(const api::DetokenizeRequest request, api::parse_detokenize_request(body, context.limits()));
  RETURN_IF_ERROR(api::check_model(request.model, context.model->id));
  ASSIGN_OR_RETURN(const std::string text, context.model->tokenizer->decode(request.tokens));
  return json_response(api::format_detokenized(text), request.warnings);
}

Result<http::Response> apply_template(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(api::TemplateRequest request, api::parse_template_request(body));
  RETURN_IF_ERROR(api::check_model(request.model, context.model->id));
  leave_out_volatile_lines(context.options.volatile_lines, request.conversation);
  ASSIGN_OR_RETURN(const std::string prompt, render_conversation(*context.model, request.conversation));
  return json_response(api::format_rendered(prompt), request.warnings);
}

using JsonHandler = Result<http::Response> (*)(const AppContext& context, const json::value& body);

http::Task<http::Response> answer(AppContext& context, http::Request& request, JsonHandler handler) {
  Result<http::Response> response = co_await run_with_json(context, request, handler);
  if (!response) co_return error_response(response.error());
  co_return *std::move(response);
}

}  // namespace

http::Task<http::Response> post_tokenize(AppContext& context, http::Request& request) {
  return answer(context, request, tokenize);
}

http::Task<http::Response> post_detokenize(AppContext& context, http::Request& request) {
  return answer(context, request, detokenize);
}

http::Task<http::Response> post_apply_template(AppContext& context, http::Request& request) {
  return answer(context, request, apply_template);
}

}  // namespace redpoll::server
