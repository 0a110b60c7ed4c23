#include "api/openai/completions.h"

#include <algorithm>
#include <limits>

#include "api/openai/answer_json.h"
#include "api/openai/request_fields.h"

namespace redpoll::api::openai {
namespace {

constexpr int kMaxLogprobs = 20;

Result<std::vector<TokenId>> read_prompt_ids(const json::array& ids, const std::string& path,
                                             const RequestLimits& limits) {
  if (ids.empty()) return bad_field(path, "expected at least one token id");
  return read_token_ids(ids, path, limits);
}

Result<CompletionPrompt> read_prompt(const json::value& prompt, const std::string& path, const RequestLimits& limits) {
  if (prompt.is_string()) return CompletionPrompt(std::string(prompt.get_string()));
  if (!prompt.is_array()) {
    return bad_field(path, "expected a string or an array of token ids, got " + std::string(json_kind_name(prompt)));
  }
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, read_prompt_ids(prompt.get_array(), path, limits));
  return CompletionPrompt(std::move(ids));
}

// A text, a list of token ids, or a list of either.
Result<std::vector<CompletionPrompt>> read_prompts(JsonReader& reader, const RequestLimits& limits) {
  std::vector<CompletionPrompt> prompts;
  const json::value* prompt = reader.optional_value("prompt");
  if (prompt == nullptr) return missing_field("prompt");
  if (prompt->is_string()) {
    prompts.emplace_back(std::string(prompt->get_string()));
    return prompts;
  }
  if (!prompt->is_array()) {
    return bad_field("prompt", "expected a string or an array, got " + std::string(json_kind_name(*prompt)));
  }
  const json::array& array = prompt->get_array();
  if (array.empty()) return bad_field("prompt", "expected at least one prompt");
  if (array.front().is_number()) {
    ASSIGN_OR_RETURN(std::vector<TokenId> ids, read_prompt_ids(array, "prompt", limits));
    prompts.emplace_back(std::move(ids));
    return prompts;
  }
  if (array.size() > static_cast<std::size_t>(limits.max_prompts)) {
    return bad_field("prompt", "expected at most " + std::to_string(limits.max_prompts) + " prompts, got " +
                                   std::to_string(array.size()));
  }
  for (const json::value& element : array) {
    ASSIGN_OR_RETURN(CompletionPrompt one, read_prompt(element, element_path("prompt", prompts.size()), limits));
    prompts.push_back(std::move(one));
  }
  return prompts;
}

Status refuse_what_cannot_be_honoured(JsonReader& reader, int num_choices) {
  ASSIGN_OR_RETURN(const std::optional<std::string> suffix, reader.optional_string("suffix"));
  if (suffix && !suffix->empty()) return not_supported("suffix");
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> best_of,
                   reader.optional_int("best_of", 0, std::numeric_limits<int>::max()));
  if (best_of && *best_of != num_choices) {
    return fail(ErrorCode::kUnsupported,
                "'best_of': only the value of 'n' is supported by this server, which is " +
                    std::to_string(num_choices) + ", got " + std::to_string(*best_of),
                "best_of");
  }
  return refuse_fields(reader, {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
                                "response_format", "adapter"});
}

json::object choice_object(int index, std::string_view text) {
  json::object choice;
  choice["index"] = index;
  choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return choice;
}

json::object answer_choice(int index, const GenerationOptions& options, const ChoiceResult& result) {
  json::object choice = choice_object(index, result.text);
  if (options.num_top_logprobs) {
    std::vector<TokenInfo> all = result.prompt_tokens;
    all.insert(all.end(), result.tokens.begin(), result.tokens.end());
    choice["logprobs"] = completion_logprobs(all);
  }
  choice["finish_reason"] = finish_reason_name(result.reason);
  if (options.return_token_ids) choice["token_ids"] = token_ids(result.tokens);
  return choice;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const json::value& body, const RequestLimits& limits) {
  ASSIGN_OR_RETURN(const json::object* object, as_request_object(body));
  JsonReader reader(*object);
  CompletionRequest request;
  ASSIGN_OR_RETURN(const std::optional<std::string> model, reader.optional_string("model"));
  request.model = model.value_or("");
  ASSIGN_OR_RETURN(request.prompts, read_prompts(reader, limits));
  ASSIGN_OR_RETURN(const std::optional<bool> echo, reader.optional_bool("echo"));
  request.echo = echo.value_or(false);
  ASSIGN_OR_RETURN(request.options, read_generation_options(reader, limits));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> max_tokens,
                   reader.optional_int("max_tokens", 0, std::numeric_limits<int>::max()));
  if (max_tokens) request.options.max_tokens = static_cast<int>(*max_tokens);
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> logprobs, reader.optional_int("logprobs", 0, kMaxLogprobs));
  if (logprobs) request.options.num_top_logprobs = static_cast<int>(*logprobs);
  RETURN_IF_ERROR(check_token_range(request.options));
  RETURN_IF_ERROR(refuse_what_cannot_be_honoured(reader, request.options.num_choices));
  if (request.echo && logprobs && max_tokens == 1) request.options.min_tokens = 1;
  reader.ignore("user");
  request.warnings = reader.unread_fields();
  return request;
}

std::string format_completion_answer(const AnswerHead& head, const GenerationOptions& options, const Answer& answer) {
  json::array choices;
  for (const ChoiceResult& result : answer.choices) {
    const std::size_t index = choices.size();
    json::object choice = answer_choice(static_cast<int>(index), options, result);
    const std::size_t prompt = index / static_cast<std::size_t>(options.num_choices);
    if (options.return_token_ids && prompt < answer.prompt_token_ids.size()) {
      choice["prompt_token_ids"] = id_array(answer.prompt_token_ids[prompt]);
    }
    choices.emplace_back(std::move(choice));
  }
  json::object body = answer_head("cmpl-", "text_completion", head);
  body["choices"] = std::move(choices);
  if (options.return_token_ids && answer.prompt_token_ids.size() == 1) {
    body["prompt_token_ids"] = id_array(answer.prompt_token_ids.front());
  }
  body["usage"] = usage_json(answer.usage);
  body["timings"] = timings_json(answer.timings, answer.usage);
  return dump_json(std::move(body));
}

CompletionStream::CompletionStream(const AnswerHead& head, const GenerationOptions& options)
    : prefix_(chunk_prefix(answer_head("cmpl-", "text_completion", head))),
      with_logprobs_(options.num_top_logprobs.has_value()),
      with_token_ids_(options.return_token_ids),
      with_usage_(options.include_usage) {}

std::string CompletionStream::start(int choice, std::span<const TokenId> prompt_token_ids) {
  if (!with_token_ids_) return {};
  json::object out = choice_object(choice, "");
  out["prompt_token_ids"] = id_array(prompt_token_ids);
  return chunk(prefix_, std::move(out), {}, with_usage_);
}

std::string CompletionStream::delta(const ChoiceDelta& delta) {
  json::object choice = choice_object(delta.choice, delta.text);
  if (with_logprobs_) choice["logprobs"] = completion_logprobs(delta.tokens);
  if (with_token_ids_) choice["token_ids"] = delta.echo ? json::array() : token_ids(delta.tokens);
  return chunk(prefix_, std::move(choice), {}, with_usage_);
}

std::string CompletionStream::finish(const ChoiceEnd& end) {
  json::object choice = choice_object(end.choice, "");
  choice["finish_reason"] = finish_reason_name(end.reason);
  json::object extra;
  extra["timings"] = timings_json(end.timings, end.usage);
  return chunk(prefix_, std::move(choice), extra, with_usage_);
}

std::string CompletionStream::usage(const Usage& usage) {
  return with_usage_ ? usage_chunk(prefix_, usage) : std::string();
}

}  // namespace redpoll::api::openai
