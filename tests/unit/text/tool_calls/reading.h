// What the tests of tool calls share: tools, and an answer read whole, byte by byte and in every two pieces.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tool_calls/parser.h"

namespace redpoll::text {

inline std::ostream& operator<<(std::ostream& out, const ToolCall& call) { return out << call.name << call.arguments; }

struct Reading {
  std::string text;
  std::vector<ToolCall> calls;
  bool operator==(const Reading&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Reading& reading) {
  return out << '"' << reading.text << "\", " << testing::PrintToString(reading.calls);
}

inline std::string join(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

inline json::array test_tool_list() {
  constexpr std::string_view kTools = R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "scale": {"type": "number"}, "now": {"type": "boolean"},
      "list": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}, "gone": {"type": "null"},
      "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "either": {"type": ["string", "number"]},
      "unit": {"enum": ["celsius", "kelvin"]}, "level": {"enum": [1, 2]},
      "place": {"$ref": "#/$defs/Place"}, "code": {"oneOf": [{"$ref": "#/$defs/Code"}, {"type": "null"}]},
      "both": {"allOf": [{"type": ["string", "number"]}, {"type": ["string", "null"]}]},
      "loop": {"$ref": "#/$defs/Loop"}, "odd": {"type": "varchar"}, "free": {"description": "anything"}},
      "$defs": {"Place": {"type": "object"}, "Code": {"enum": ["1", "2"]}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}}
    }}},
    {"type": "function", "function": {"name": "weather_map", "parameters": {
      "type": "object", "additionalProperties": {"type": "string"}}}},
    {"type": "function", "function": {"name": "now"}}])";
  return parse_json(kTools).value().get_array();
}

inline std::shared_ptr<const ToolSchemas> test_tools() { return std::make_shared<const ToolSchemas>(test_tool_list()); }

inline Reading read_pieces(const ToolCallOptions& options, const std::vector<std::string_view>& pieces) {
  ToolCallParser parser(options);
  Reading reading;
  for (const std::string_view piece : pieces) {
    ToolCallParser::Output output = parser.push(piece);
    reading.text += output.text;
    for (ToolCall& call : output.calls) reading.calls.push_back(std::move(call));
  }
  reading.text += parser.flush();
  return reading;
}

inline std::vector<std::string_view> bytes_of(std::string_view text) {
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  return bytes;
}

/// The whole answer; that no cut changes it is expected on the way.
inline Reading read(const ToolCallOptions& options, std::string_view answer) {
  Reading whole = read_pieces(options, {answer});
  EXPECT_EQ(read_pieces(options, bytes_of(answer)), whole) << "byte by byte: " << answer;
  for (std::size_t cut = 0; cut <= answer.size(); ++cut) {
    EXPECT_EQ(read_pieces(options, {answer.substr(0, cut), answer.substr(cut)}), whole) << cut << ": " << answer;
  }
  return whole;
}

inline Reading read(ToolCallFormat format, std::string_view answer) {
  return read({.format = format, .tools = test_tools()}, answer);
}

/// All of it text.
inline Reading only_text(std::string_view text) { return {std::string(text), {}}; }

inline Reading one_call(std::string name, std::string arguments) {
  return {"", {{.name = std::move(name), .arguments = std::move(arguments)}}};
}

}  // namespace redpoll::text
