#include "text/tool_calls/json_text.h"

#include "base/json.h"
#include "text/tool_calls/call_reader.h"

namespace redpoll::text {
namespace {

// Where the key or value ends that begins at `at`: at the ':', ',' or bracket behind it.
std::size_t end_of_value(std::string_view json, std::size_t at) {
  std::size_t depth = 0;
  bool in_string = false;
  for (; at < json.size(); ++at) {
    const char byte = json[at];
    if (in_string) {
      if (byte == '\\') ++at;
      in_string = byte != '"';
      continue;
    }
    const bool closes = byte == '}' || byte == ']';
    if (depth == 0 && (closes || byte == ',' || byte == ':')) break;
    if (closes) --depth;
    if (byte == '{' || byte == '[') ++depth;
    in_string = byte == '"';
  }
  return at;
}

}  // namespace

std::string compact_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char byte = json[at];
    if (!in_string && is_space(byte)) continue;
    out += byte;
    if (in_string && byte == '\\') {
      out += json[++at];
    } else if (byte == '"') {
      in_string = !in_string;
    }
  }
  return out;
}

std::vector<JsonMember> members_of(std::string_view object) {
  std::vector<JsonMember> members;
  for (std::size_t at = 1; at < object.size() && object[at] != '}';) {
    const std::size_t key_end = end_of_value(object, at);
    const std::size_t value_end = end_of_value(object, key_end + 1);
    const Result<json::value> key = parse_json(object.substr(at, key_end - at));
    CHECK(key && key->is_string(), "the object's text is valid");
    members.push_back(
        {.key = std::string(key->get_string()), .value = object.substr(key_end + 1, value_end - key_end - 1)});
    at = value_end + (value_end < object.size() && object[value_end] == ',' ? 1 : 0);
  }
  return members;
}

}  // namespace redpoll::text
