// CallReader: reads one tool call of one format, byte by byte, and says at the first byte that does not belong that it
// is none. Internal to ToolCallParser.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tool_calls/format.h"
#include "text/tool_calls/schemas.h"

namespace redpoll::text {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text of an object: what the model wrote as JSON, less white space between tokens
  bool operator==(const ToolCall&) const = default;
};

/// Constant time a byte, but for the ends of calls and values, which take as long as these are, and the bytes of a
/// tool's name, which take a search among the sorted names.
class CallReader {
 public:
  enum class Step {
    kMore,      // so far a call
    kComplete,  // a whole one: see take()
    kFailed     // with this byte it is none
  };

  virtual ~CallReader() = default;
  /// Forgets what it has read. The byte that comes next must be '<', with which all calls begin.
  virtual void start() = 0;
  [[nodiscard]] virtual Step push(char byte) = 0;
  /// The call, once after kComplete.
  [[nodiscard]] virtual ToolCall take() = 0;
};

[[nodiscard]] std::unique_ptr<CallReader> make_json_call_reader(std::shared_ptr<const ToolSchemas> tools);
/// kFunctionTags or kNamedTags.
[[nodiscard]] std::unique_ptr<CallReader> make_tag_call_reader(ToolCallFormat format,
                                                               std::shared_ptr<const ToolSchemas> tools);

/// Follows a text along a pattern, in which a space stands for any white space or none and '"' for either quote. A
/// pattern ends with something else than a space.
class Pattern {
 public:
  explicit Pattern(std::string_view pattern = {}) : rest_(pattern) {}
  [[nodiscard]] CallReader::Step push(char byte);

 private:
  std::string_view rest_;
};

[[nodiscard]] constexpr bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

}  // namespace redpoll::text
