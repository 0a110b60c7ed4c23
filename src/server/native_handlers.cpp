#include "server/native_handlers.h"

#include "api/errors.h"
#include "api/native.h"
#include "api/openai/chat.h"
#include "api/openai/completions.h"
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

/// What a chat request or a completion request would ask of the prompt cache.
struct AskedCache {
  engine::CacheQuery query;
  std::vector<std::string> warnings;
};

AskedCache asked_of(PreparedGeneration prepared, std::vector<std::string> warnings) {
  return {.query = {.prompt = std::move(prepared.prompts.front().ids), .prompt_logprobs = prepared.scores_prompt()},
          .warnings = std::move(warnings)};
}

Result<AskedCache> read_question(const AppContext& context, const json::value& body) {
  const bool is_chat = body.is_object() && body.get_object().contains("messages");
  const ServedModel& model = *context.model;
  if (is_chat) {
    ASSIGN_OR_RETURN(api::ChatRequest request, api::openai::parse_chat_request(body, context.limits()));
    RETURN_IF_ERROR(api::check_model(request.model, model.id));
    leave_out_volatile_lines(context.options.volatile_lines, request.conversation);
    ASSIGN_OR_RETURN(PreparedGeneration prepared, prepare_chat(model, context.options.defaults, request));
    return asked_of(std::move(prepared), std::move(request.warnings));
  }
  ASSIGN_OR_RETURN(api::CompletionRequest request, api::openai::parse_completion_request(body, context.limits()));
  RETURN_IF_ERROR(api::check_model(request.model, model.id));
  if (request.prompts.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "'prompt': expected one prompt, got " + std::to_string(request.prompts.size()), "prompt");
  }
  ASSIGN_OR_RETURN(PreparedGeneration prepared, prepare_completion(model, context.options.defaults, request));
  return asked_of(std::move(prepared), std::move(request.warnings));
}

struct StopText {
  std::string_view name;
  std::string_view message;
};

StopText text_of(const engine::CacheExplanation& found) {
  switch (found.stop) {
    case engine::CacheStop::kOff: return {"cache_off", "this server keeps no prompts: see --prompt-cache"};
    case engine::CacheStop::kScoresPrompt:
      return {"prompt_logprobs", "who wants the prompt's logprobs computes all of it, whatever is cached"};
    case engine::CacheStop::kEndOfPrompt:
      if (found.prompt_tokens == 1) {
        return {"end_of_prompt",
                "the prompt has one token; the last one is always computed, so nothing could be cached"};
      }
      return {"end_of_prompt", "all but the last token, which is always computed, is cached"};
    case engine::CacheStop::kDifferent: return {"different_token", "what is cached goes on with another token there"};
    case engine::CacheStop::kNoSnapshot:
      return {
          "no_snapshot",
          "more is cached, but this model's windows or states can be gone on from at few places only, and this is the "
          "last of them"};
    case engine::CacheStop::kEvicted:
      return {"evicted", "more was cached and has been given up: see --prompt-cache and --ssd-cache"};
    case engine::CacheStop::kOtherNamespace:
      return {
          "other_namespace",
          "more was computed with another model file, other options such as --kv-quant, or another build: its files "
          "are of 'other_namespace', which this server cannot use"};
    case engine::CacheStop::kNothingCached: break;
  }
  return {"nothing_cached", "no prompt that goes on so has been seen"};
}

Result<http::Response> explain(const AppContext& context, const json::value& body) {
  ASSIGN_OR_RETURN(const AskedCache asked, read_question(context, body));
  const ServedModel& model = *context.model;
  const std::vector<TokenId>& ids = asked.query.prompt;
  ASSIGN_OR_RETURN(const engine::CacheExplanation found, model.engine->explain(asked.query));
  const auto piece = [&](TokenId id) { return api::TokenPiece{id, model.tokenizer->token_bytes(id)}; };
  const StopText stop = text_of(found);
  api::CacheExplanation explanation{.prompt_tokens = found.prompt_tokens,
                                    .cached_tokens = found.cached_tokens(),
                                    .memory_tokens = found.memory_tokens,
                                    .disk_tokens = found.disk_tokens,
                                    .stops_because = std::string(stop.name),
                                    .message = std::string(stop.message),
                                    .cache_namespace = found.cache_namespace};
  if (found.stop == engine::CacheStop::kOtherNamespace) explanation.other_namespace = found.other_namespace;
  const auto next = static_cast<std::size_t>(found.cached_tokens());
  if (next < ids.size()) explanation.requested = piece(ids[next]);
  if (found.cached_token) explanation.cached = piece(*found.cached_token);
  return json_response(api::format_explanation(explanation), asked.warnings);
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

http::Task<http::Response> post_cache_explain(AppContext& context, http::Request& request) {
  return answer(context, request, explain);
}

}  // namespace redpoll::server
