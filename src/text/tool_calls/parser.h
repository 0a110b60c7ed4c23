// ToolCallParser: tells the tool calls in a model's answer from its text, while the answer arrives in pieces. The
// result depends on the answer alone, never on how it was cut.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/format.h"
#include "text/tool_calls/schemas.h"

namespace redpoll::text {

struct ToolCallOptions {
  ToolCallFormat format = ToolCallFormat::kJson;
  std::shared_ptr<const ToolSchemas> tools;         // those that may be called
  int max_calls = std::numeric_limits<int>::max();  // after so many, nothing more comes out
};

/// One per choice of a request; not for several threads at once. What it costs: see CallReader.
///
/// Markup that is no call of a known tool is text like any other and comes out byte for byte: as soon as it goes wrong,
/// or at the end of an answer that ends inside of it. The call that comes next may begin with the last '<' in it. White
/// space alone before, between and after calls is dropped.
class ToolCallParser {
 public:
  struct Output {
    std::string text;  // safe to show
    std::vector<ToolCall> calls;
  };

  explicit ToolCallParser(const ToolCallOptions& options);

  /// All pieces together must be valid UTF-8.
  [[nodiscard]] Output push(std::string_view text);
  /// What was held back, at the end of the answer.
  [[nodiscard]] std::string flush();
  /// `max_calls` have come out.
  [[nodiscard]] bool finished() const { return num_calls_ == max_calls_; }

 private:
  void read(std::string_view text, Output& output);
  void give_up_call(Output& output);
  void show(std::string_view text, std::string& out);

  std::unique_ptr<CallReader> reader_;
  int max_calls_;
  int num_calls_ = 0;
  bool in_call_ = false;
  std::string held_;         // of what may be a call
  std::string spaces_;       // before it, while the text since the last call is nothing else
  bool shows_text_ = false;  // there was other text since
};

}  // namespace redpoll::text
