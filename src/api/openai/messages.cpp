// Chat messages: roles, text content as a string or as parts, and the tool calls of earlier turns.
#include <algorithm>
#include <array>

#include "api/openai/conversation.h"
#include "api/openai/request_fields.h"
#include "base/text.h"

namespace redpoll::api::openai {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

std::string kind_of(const json::value& value) { return std::string(json_kind_name(value)); }

Result<const json::object*> as_object(const json::value& value, const std::string& path) {
  if (value.is_object()) return &value.get_object();
  return bad_field(path, "expected an object, got " + kind_of(value));
}

// Fields that mean something to templates or to hosted services only. Every message goes to the template whole, so what
// is not here is named as unknown although a template might read it.
constexpr std::array<std::string_view, 5> kKnownMessageFields = {"name", "refusal", "reasoning_content", "reasoning",
                                                                 "annotations"};

// The text of one content part. Media parts are named as such, so that their senders know why.
Result<std::string> read_part(const json::value& part, const std::string& path, JsonReader& message) {
  ASSIGN_OR_RETURN(const json::object* object, as_object(part, path));
  JsonReader reader(*object, path);
  ASSIGN_OR_RETURN(const std::string type, reader.required_string("type"));
  if (type == "text" || type == "refusal") {
    ASSIGN_OR_RETURN(std::string text, reader.required_string(type));
    reader.ignore("annotations");
    message.note_unread(reader);
    return text;
  }
  for (const std::string_view media : {"image", "audio", "video", "file"}) {
    if (type.find(media) != std::string::npos) {
      return fail(ErrorCode::kUnsupported,
                  "'" + path + "': this model takes text only, got a part of type " + in_quotes(type), path);
    }
  }
  return bad_field(reader.path_of("type"), "expected 'text', got " + in_quotes(type));
}

Result<std::string> read_content(const json::value& content, JsonReader& message) {
  const std::string path = message.path_of("content");
  if (content.is_string()) return std::string(content.get_string());
  if (!content.is_array()) {
    return bad_field(path, "expected a string or an array of parts, got " + kind_of(content));
  }
  std::string text;
  std::size_t index = 0;
  for (const json::value& part : content.get_array()) {
    ASSIGN_OR_RETURN(const std::string piece, read_part(part, element_path(path, index++), message));
    text += piece;
  }
  return text;
}

// Templates print arguments as an object; clients send the text that the model once wrote.
Result<json::value> read_arguments(const json::value* arguments, const std::string& path) {
  if (arguments == nullptr) return json::value(json::object());
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) {
    return bad_field(path, "expected a string that holds a JSON object, got " + kind_of(*arguments));
  }
  if (arguments->get_string().empty()) return json::value(json::object());
  Result<json::value> parsed = parse_json(arguments->get_string());
  if (!parsed) return bad_field(path, parsed.error().message);
  if (!parsed->is_object()) {
    return bad_field(path, "expected a string that holds a JSON object, got one that holds " + kind_of(*parsed));
  }
  return parsed;
}

Result<json::object> read_tool_call(const json::value& call, const std::string& path, JsonReader& message) {
  ASSIGN_OR_RETURN(const json::object* object, as_object(call, path));
  JsonReader reader(*object, path);
  ASSIGN_OR_RETURN(const std::optional<std::string> type, reader.optional_string("type"));
  if (type && *type != "function")
    return bad_field(reader.path_of("type"), "expected 'function', got " + in_quotes(*type));
  RETURN_IF_ERROR(reader.optional_string("id"));
  reader.ignore("index");  // left over from the chunks of a stream
  ASSIGN_OR_RETURN(const json::object* function, required_object(reader, "function"));

  JsonReader function_reader(*function, reader.path_of("function"));
  RETURN_IF_ERROR(function_reader.required_string("name"));
  const std::string arguments_path = function_reader.path_of("arguments");
  ASSIGN_OR_RETURN(json::value arguments, read_arguments(function_reader.optional_value("arguments"), arguments_path));

  message.note_unread(reader);
  message.note_unread(function_reader);

  json::object out = *object;
  out["type"] = "function";
  json::object& out_function = out["function"].get_object();
  out_function["arguments"] = std::move(arguments);
  return out;
}

Result<json::array> read_tool_calls(const json::array& calls, JsonReader& message) {
  const std::string path = message.path_of("tool_calls");
  json::array out;
  for (const json::value& call : calls) {
    ASSIGN_OR_RETURN(json::object read, read_tool_call(call, element_path(path, out.size()), message));
    out.emplace_back(std::move(read));
  }
  return out;
}

Result<std::string> read_role(JsonReader& reader) {
  ASSIGN_OR_RETURN(std::string role, reader.required_string("role"));
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    return bad_field(reader.path_of("role"),
                     "expected one of system, developer, user, assistant, tool, got " + in_quotes(role));
  }
  return role == "developer" ? "system" : std::move(role);
}

// Clients dump their message classes, nulls included; to a template "is defined" must mean that there is something.
// Content alone keeps its place: it becomes text.
json::object without_nulls(const json::object& message) {
  json::object out;
  out.reserve(message.size());
  for (const auto& member : message) {
    if (!member.value().is_null() || member.key() == "content") out.emplace(member.key(), member.value());
  }
  return out;
}

Result<json::object> read_message(const json::value& message, const std::string& path, JsonReader& request) {
  ASSIGN_OR_RETURN(const json::object* object, as_object(message, path));
  JsonReader reader(*object, path);
  json::object out = without_nulls(*object);

  ASSIGN_OR_RETURN(const std::string role, read_role(reader));
  out["role"] = role;
  RETURN_IF_ERROR(refuse_fields(reader, {"audio", "function_call"}));

  ASSIGN_OR_RETURN(const json::array* calls, reader.optional_array("tool_calls"));
  const bool has_calls = calls != nullptr && !calls->empty();
  if (has_calls && role != "assistant") {
    return bad_field(reader.path_of("tool_calls"),
                     "allowed in assistant messages only, got one of role '" + role + "'");
  }
  if (has_calls) {
    ASSIGN_OR_RETURN(out["tool_calls"], read_tool_calls(*calls, reader));
  } else {
    out.erase("tool_calls");
  }

  const json::value* content = reader.optional_value("content");
  if (content != nullptr) {
    ASSIGN_OR_RETURN(out["content"], read_content(*content, reader));
  } else if (has_calls) {
    out["content"] = "";  // templates concatenate it
  } else {
    return missing_field(reader.path_of("content"));
  }
  if (role == "tool") RETURN_IF_ERROR(reader.required_string("tool_call_id"));
  for (const std::string_view name : kKnownMessageFields) reader.ignore(name);
  request.note_unread(reader);
  return out;
}

// Of messages that have been read: nothing if the first system message came as one string, or without any part.
std::optional<std::size_t> first_system_part(const json::array& messages, const json::array& read) {
  const auto is_system = [](const json::value& message) { return message.as_object().at("role") == "system"; };
  const auto found = std::ranges::find_if(read, is_system);
  if (found == read.end()) return std::nullopt;
  const json::value& content = messages[static_cast<std::size_t>(found - read.begin())].as_object().at("content");
  if (!content.is_array() || content.get_array().empty()) return std::nullopt;
  const json::object& part = content.get_array().front().as_object();
  return part.at(part.at("type").as_string()).as_string().size();
}

}  // namespace

Status read_messages(JsonReader& reader, Conversation& conversation) {
  ASSIGN_OR_RETURN(const json::array* messages, reader.required_array("messages"));
  const std::string path = reader.path_of("messages");
  if (messages->empty()) return bad_field(path, "expected at least one message");
  json::array& out = conversation.messages;
  out.reserve(messages->size());
  for (const json::value& message : *messages) {
    ASSIGN_OR_RETURN(json::object read, read_message(message, element_path(path, out.size()), reader));
    out.emplace_back(std::move(read));
  }
  conversation.first_system_part = first_system_part(*messages, out);
  return {};
}

}  // namespace redpoll::api::openai
