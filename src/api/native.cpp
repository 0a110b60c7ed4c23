#include "api/native.h"

#include "api/openai/conversation.h"
#include "api/openai/request_fields.h"
#include "base/utf8.h"

namespace redpoll::api {
namespace {

using openai::as_request_object;
using openai::bad_field;

std::string one_string_object(std::string_view name, const std::string& text) {
  json::object out;
  out[name] = text;
  return dump_json(std::move(out));
}

json::value piece_json(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return json::string(bytes);
  json::array out;
  for (const char c : bytes) out.emplace_back(static_cast<unsigned char>(c));
  return out;
}

Result<std::string> read_model(JsonReader& reader) {
  ASSIGN_OR_RETURN(const std::optional<std::string> model, reader.optional_string("model"));
  return model.value_or("");
}

// The text under whichever name the client knows. Several would leave all but one unread.
Result<std::optional<std::string>> read_text(JsonReader& reader) {
  std::optional<std::string> text;
  std::string_view taken;
  for (const std::string_view name : {"content", "text", "prompt"}) {
    ASSIGN_OR_RETURN(std::optional<std::string> value, reader.optional_string(name));
    if (!value) continue;
    if (text) {
      return bad_field(std::string(name), "expected one text, got another in '" + std::string(taken) + "'");
    }
    text = std::move(value);
    taken = name;
  }
  return text;
}

// A conversation, and whether the answer's opening is rendered after it: chat answers always open, these routes need
// not.
Result<Conversation> read_template_input(JsonReader& reader) {
  ASSIGN_OR_RETURN(Conversation conversation, openai::read_conversation(reader));
  ASSIGN_OR_RETURN(const std::optional<bool> add_prompt, reader.optional_bool("add_generation_prompt"));
  conversation.add_generation_prompt = add_prompt.value_or(true);
  return conversation;
}

}  // namespace

Result<TokenizeRequest> parse_tokenize_request(const json::value& body) {
  ASSIGN_OR_RETURN(const json::object* object, as_request_object(body));
  JsonReader reader(*object);
  TokenizeRequest request;
  ASSIGN_OR_RETURN(std::optional<std::string> text, read_text(reader));
  if (reader.optional_value("messages") != nullptr) {
    if (text) return bad_field("messages", "expected either a text or messages, got both");
    ASSIGN_OR_RETURN(request.input, read_template_input(reader));
  } else if (text) {
    request.input = *std::move(text);
  } else {
    return fail(ErrorCode::kInvalidArgument, "'content' is required, or 'messages'", "content");
  }
  ASSIGN_OR_RETURN(const std::optional<bool> add_special, reader.optional_bool("add_special"));
  ASSIGN_OR_RETURN(const std::optional<bool> with_pieces, reader.optional_bool("with_pieces"));
  request.add_special = add_special.value_or(false);
  request.with_pieces = with_pieces.value_or(false);
  ASSIGN_OR_RETURN(request.model, read_model(reader));
  request.warnings = reader.unread_fields();
  return request;
}

std::string format_tokens(std::span<const TokenPiece> tokens, bool with_pieces) {
  json::array array;
  array.reserve(tokens.size());
  for (const TokenPiece& token : tokens) {
    if (!with_pieces) {
      array.emplace_back(token.id);
      continue;
    }
    json::object entry;
    entry["id"] = token.id;
    entry["piece"] = piece_json(token.bytes);
    array.emplace_back(std::move(entry));
  }
  json::object out;
  out["tokens"] = std::move(array);
  return dump_json(std::move(out));
}

std::string format_explanation(const CacheExplanation& explanation) {
  const auto piece_json = [](const std::optional<TokenPiece>& piece) -> json::value {
    if (!piece) return nullptr;
    return json::object{{"id", piece->id}, {"piece", replace_invalid_utf8(piece->bytes)}};
  };
  json::object out;
  out["prompt_tokens"] = explanation.prompt_tokens;
  out["cached_tokens"] = explanation.cached_tokens;
  out["memory_tokens"] = explanation.memory_tokens;
  out["disk_tokens"] = explanation.disk_tokens;
  out["stops_because"] = explanation.stops_because;
  out["message"] = explanation.message;
  out["requested"] = piece_json(explanation.requested);
  out["cached"] = piece_json(explanation.cached);
  const auto name_json = [](const std::string& name) {
    return name.empty() ? json::value(nullptr) : json::value(name);
  };
  out["namespace"] = name_json(explanation.cache_namespace);
  out["other_namespace"] = name_json(explanation.other_namespace);
  return dump_json(std::move(out));
}

Result<DetokenizeRequest> parse_detokenize_request(const json::value& body, const RequestLimits& limits) {
  ASSIGN_OR_RETURN(const json::object* object, as_request_object(body));
  JsonReader reader(*object);
  DetokenizeRequest request;
  ASSIGN_OR_RETURN(const json::array* tokens, reader.required_array("tokens"));
  ASSIGN_OR_RETURN(request.tokens, openai::read_token_ids(*tokens, "tokens", limits));
  ASSIGN_OR_RETURN(request.model, read_model(reader));
  request.warnings = reader.unread_fields();
  return request;
}

std::string format_detokenized(const std::string& content) { return one_string_object("content", content); }

Result<TemplateRequest> parse_template_request(const json::value& body) {
  ASSIGN_OR_RETURN(const json::object* object, as_request_object(body));
  JsonReader reader(*object);
  TemplateRequest request;
  ASSIGN_OR_RETURN(request.conversation, read_template_input(reader));
  ASSIGN_OR_RETURN(request.model, read_model(reader));
  request.warnings = reader.unread_fields();
  return request;
}

std::string format_rendered(const std::string& prompt) { return one_string_object("prompt", prompt); }

std::string format_health(const std::string& status, const std::string& reason) {
  // With the space that scripts grep for.
  std::string out = "{\"status\": " + dump_json(json::value(status));
  if (!reason.empty()) out += ", \"reason\": " + dump_json(json::value(replace_invalid_utf8(reason)));
  return out + '}';
}

}  // namespace redpoll::api
