// Tools of a chat request and what the client wants done with them.
#include <algorithm>

#include "api/openai/conversation.h"
#include "api/openai/request_fields.h"
#include "base/text.h"

namespace redpoll::api::openai {
namespace {

/// A function without parameters has, as OpenAI has it, an empty list of them; many templates read it without asking.
json::object with_parameters(json::object function) {
  json::value& parameters = function["parameters"];
  if (parameters.is_null()) parameters = json::object{};
  json::object& schema = parameters.as_object();
  if (schema.empty()) schema["type"] = "object";
  const json::value* type = schema.if_contains("type");
  if (type != nullptr && *type == "object") schema.emplace("properties", json::object{});
  return function;
}

Result<json::object> read_tool(const json::value& tool, const std::string& path, JsonReader& request) {
  if (!tool.is_object()) return bad_field(path, "expected an object, got " + std::string(json_kind_name(tool)));
  JsonReader reader(tool.get_object(), path);
  ASSIGN_OR_RETURN(const std::optional<std::string> type, reader.optional_string("type"));
  if (type && *type != "function")
    return bad_field(reader.path_of("type"), "expected 'function', got " + in_quotes(*type));
  ASSIGN_OR_RETURN(const json::object* function, required_object(reader, "function"));

  JsonReader function_reader(*function, reader.path_of("function"));
  ASSIGN_OR_RETURN(const std::string name, function_reader.required_string("name"));
  if (name.empty()) return bad_field(function_reader.path_of("name"), "expected a string that is not empty");
  RETURN_IF_ERROR(function_reader.optional_string("description"));
  RETURN_IF_ERROR(function_reader.optional_object("parameters"));
  ASSIGN_OR_RETURN(const std::optional<bool> strict, function_reader.optional_bool("strict"));
  if (strict.value_or(false)) {
    return fail(ErrorCode::kUnsupported,
                "'" + function_reader.path_of("strict") + "': this server cannot hold the calls of " + in_quotes(name) +
                    " to their schema yet; send false or leave it out, and the model is shown the schema all the same",
                function_reader.path_of("strict"));
  }
  request.note_unread(reader);
  request.note_unread(function_reader);

  json::object out;
  if (!type) out["type"] = "function";  // first, where clients that send it put it
  for (const auto& member : tool.get_object()) {
    if (type || member.key() != "type") out.emplace(member.key(), member.value());
  }
  out["function"] = with_parameters(*function);
  return out;
}

bool has_tool(const json::array& tools, std::string_view name) {
  return std::ranges::any_of(tools, [&](const json::value& tool) {
    return tool.at("function").at("name").get_string() == json::string_view(name.data(), name.size());
  });
}

// The name in {"type": "function", "function": {"name": ...}}.
Result<std::string> read_named_choice(const json::object& choice, const std::string& path) {
  JsonReader reader(choice, path);
  ASSIGN_OR_RETURN(const std::string type, reader.required_string("type"));
  if (type != "function") return bad_field(reader.path_of("type"), "expected 'function', got " + in_quotes(type));
  ASSIGN_OR_RETURN(const json::object* function, required_object(reader, "function"));
  return JsonReader(*function, reader.path_of("function")).required_string("name");
}

std::unexpected<Error> cannot_force(const std::string& path) {
  return fail(ErrorCode::kUnsupported,
              "'" + path + R"(': forcing a tool call is not supported yet by this server; use "auto" or "none")", path);
}

// Whether the model may see the tools.
Result<bool> read_tool_choice(JsonReader& reader, const json::array& tools) {
  const json::value* choice = reader.optional_value("tool_choice");
  const std::string path = reader.path_of("tool_choice");
  if (choice == nullptr) return true;
  if (choice->is_object()) {
    ASSIGN_OR_RETURN(const std::string name, read_named_choice(choice->get_object(), path));
    if (!has_tool(tools, name)) return bad_field(path, "there is no tool " + in_quotes(name) + " in 'tools'");
    return cannot_force(path);
  }
  if (!choice->is_string()) {
    return bad_field(path, "expected a string or an object, got " + std::string(json_kind_name(*choice)));
  }
  const std::string_view word = choice->get_string();
  if (word == "none") return false;
  if (word == "auto") return true;
  if (word != "required") {
    return bad_field(path, "expected none, auto, required or an object, got " + in_quotes(word));
  }
  if (tools.empty()) return bad_field(path, "\"required\" needs 'tools'");
  return cannot_force(path);
}

}  // namespace

Status read_tools(JsonReader& reader, Conversation& conversation) {
  json::array tools;
  ASSIGN_OR_RETURN(const json::array* given, reader.optional_array("tools"));
  if (given != nullptr) {
    for (const json::value& tool : *given) {
      ASSIGN_OR_RETURN(json::object read, read_tool(tool, element_path(reader.path_of("tools"), tools.size()), reader));
      tools.emplace_back(std::move(read));
    }
  }
  ASSIGN_OR_RETURN(const bool visible, read_tool_choice(reader, tools));
  ASSIGN_OR_RETURN(const std::optional<bool> parallel, reader.optional_bool("parallel_tool_calls"));
  conversation.parallel_tool_calls = parallel.value_or(true);
  if (visible) conversation.tools = std::move(tools);
  return {};
}

}  // namespace redpoll::api::openai
