#include "api/openai/chat.h"

#include <limits>

#include "api/openai/answer_json.h"
#include "api/openai/conversation.h"
#include "api/openai/request_fields.h"
#include "base/text.h"

namespace redpoll::api::openai {
namespace {

constexpr int kMaxTopLogprobs = 20;

// Fields of the OpenAI API that change nothing here: bookkeeping of a hosted service, and hints about speed.
void ignore_fields_without_effect(JsonReader& reader) {
  for (const std::string_view name : {"user", "metadata", "store", "service_tier", "prompt_cache_key",
                                      "prompt_cache_retention", "safety_identifier", "prediction"}) {
    reader.ignore(name);
  }
}

Status refuse_what_cannot_be_honoured(JsonReader& reader) {
  RETURN_IF_ERROR(
      refuse_fields(reader, {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
                             "adapter", "audio", "web_search_options", "functions", "function_call"}));
  ASSIGN_OR_RETURN(const json::array* modalities, reader.optional_array("modalities"));
  if (modalities != nullptr) {
    for (const json::value& modality : *modalities) {
      if (modality != "text") return not_supported("modalities");
    }
  }
  ASSIGN_OR_RETURN(const json::object* format, reader.optional_object("response_format"));
  if (format == nullptr) return {};
  JsonReader format_reader(*format, reader.path_of("response_format"));
  ASSIGN_OR_RETURN(const std::string type, format_reader.required_string("type"));
  if (type == "text") {
    reader.note_unread(format_reader);
    return {};
  }
  if (type != "json_object" && type != "json_schema") {
    return bad_field("response_format.type", "expected text, json_object or json_schema, got " + in_quotes(type));
  }
  return fail(ErrorCode::kUnsupported, "'response_format': '" + type + "' is not supported yet by this server",
              "response_format");
}

Result<std::optional<int>> read_max_tokens(JsonReader& reader) {
  constexpr int kMax = std::numeric_limits<int>::max();
  ASSIGN_OR_RETURN(std::optional<std::int64_t> tokens, reader.optional_int("max_tokens", 1, kMax));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> newer, reader.optional_int("max_completion_tokens", 1, kMax));
  if (newer) tokens = newer;
  if (!tokens) return std::nullopt;
  return static_cast<int>(*tokens);
}

Result<std::optional<int>> read_logprobs(JsonReader& reader) {
  ASSIGN_OR_RETURN(const std::optional<bool> wanted, reader.optional_bool("logprobs"));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> top, reader.optional_int("top_logprobs", 0, kMaxTopLogprobs));
  if (wanted.value_or(false)) return static_cast<int>(top.value_or(0));
  if (top.value_or(0) > 0) return bad_field("top_logprobs", "needs 'logprobs' to be true");
  return std::nullopt;
}

json::object chat_choice(int index, FinishReason reason, json::object message, json::value logprobs) {
  json::object choice;
  choice["index"] = index;
  choice["message"] = std::move(message);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_reason_name(reason);
  return choice;
}

// An element of `tool_calls`; in a chunk `index` tells which call it is.
json::object tool_call_json(const ToolCall& call, json::object out = {}) {
  json::object function;
  function["name"] = call.name;
  function["arguments"] = call.arguments;
  out["id"] = call.id;
  out["type"] = "function";
  out["function"] = std::move(function);
  return out;
}

json::object chat_message(const ChoiceResult& result) {
  json::object message;
  message["role"] = "assistant";
  message["content"] = result.text;
  if (result.tool_calls.empty()) return message;
  if (result.text.empty()) message["content"] = nullptr;
  json::array calls;
  for (const ToolCall& call : result.tool_calls) calls.emplace_back(tool_call_json(call));
  message["tool_calls"] = std::move(calls);
  return message;
}

json::object chat_delta(const ChoiceDelta& delta) {
  json::object out;
  if (!delta.text.empty() || delta.tool_calls.empty()) out["content"] = delta.text;
  if (delta.tool_calls.empty()) return out;
  json::array calls;
  for (const ToolCall& call : delta.tool_calls) calls.emplace_back(tool_call_json(call, {{"index", call.index}}));
  out["tool_calls"] = std::move(calls);
  return out;
}

// A choice of a chunk; `finish_reason` is null until the last.
json::object chunk_choice(int index, json::object delta) {
  json::object choice;
  choice["index"] = index;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return choice;
}

}  // namespace

Result<ChatRequest> parse_chat_request(const json::value& body, const RequestLimits& limits) {
  ASSIGN_OR_RETURN(const json::object* object, as_request_object(body));
  JsonReader reader(*object);
  ChatRequest request;
  ASSIGN_OR_RETURN(const std::optional<std::string> model, reader.optional_string("model"));
  request.model = model.value_or("");
  ASSIGN_OR_RETURN(request.conversation, read_conversation(reader));
  ASSIGN_OR_RETURN(request.options, read_generation_options(reader, limits));
  ASSIGN_OR_RETURN(request.options.max_tokens, read_max_tokens(reader));
  ASSIGN_OR_RETURN(request.options.num_top_logprobs, read_logprobs(reader));
  RETURN_IF_ERROR(check_token_range(request.options));
  RETURN_IF_ERROR(refuse_what_cannot_be_honoured(reader));
  ignore_fields_without_effect(reader);
  request.warnings = reader.unread_fields();
  return request;
}

std::string format_chat_answer(const AnswerHead& head, const GenerationOptions& options, const Answer& answer) {
  json::array choices;
  for (const ChoiceResult& result : answer.choices) {
    json::value logprobs = options.num_top_logprobs ? chat_logprobs(result.tokens) : json::value(nullptr);
    json::object choice =
        chat_choice(static_cast<int>(choices.size()), result.reason, chat_message(result), std::move(logprobs));
    if (options.return_token_ids) choice["token_ids"] = token_ids(result.tokens);
    choices.emplace_back(std::move(choice));
  }
  json::object body = answer_head("chatcmpl-", "chat.completion", head);
  body["choices"] = std::move(choices);
  if (options.return_token_ids && !answer.prompt_token_ids.empty()) {
    body["prompt_token_ids"] = id_array(answer.prompt_token_ids.front());
  }
  body["usage"] = usage_json(answer.usage);
  body["timings"] = timings_json(answer.timings, answer.usage);
  return dump_json(std::move(body));
}

ChatStream::ChatStream(const AnswerHead& head, const GenerationOptions& options)
    : prefix_(chunk_prefix(answer_head("chatcmpl-", "chat.completion.chunk", head))),
      with_logprobs_(options.num_top_logprobs.has_value()),
      with_token_ids_(options.return_token_ids),
      with_usage_(options.include_usage) {}

std::string ChatStream::start(int choice, std::span<const TokenId> prompt_token_ids) {
  json::object delta;
  delta["role"] = "assistant";
  delta["content"] = "";
  json::object extra;
  if (with_token_ids_) extra["prompt_token_ids"] = id_array(prompt_token_ids);
  return chunk(prefix_, chunk_choice(choice, std::move(delta)), extra, with_usage_);
}

std::string ChatStream::delta(const ChoiceDelta& delta) {
  json::object choice = chunk_choice(delta.choice, chat_delta(delta));
  if (with_logprobs_) choice["logprobs"] = chat_logprobs(delta.tokens);
  if (with_token_ids_) choice["token_ids"] = token_ids(delta.tokens);
  return chunk(prefix_, std::move(choice), {}, with_usage_);
}

std::string ChatStream::finish(const ChoiceEnd& end) {
  json::object choice = chunk_choice(end.choice, {});
  choice["finish_reason"] = finish_reason_name(end.reason);
  json::object extra;
  extra["timings"] = timings_json(end.timings, end.usage);
  return chunk(prefix_, std::move(choice), extra, with_usage_);
}

std::string ChatStream::usage(const Usage& usage) { return with_usage_ ? usage_chunk(prefix_, usage) : std::string(); }

}  // namespace redpoll::api::openai
