// ChatTemplate: renders messages into a prompt as Hugging Face's apply_chat_template does (Jinja2 in a sandbox with
// trimmed blocks, `tojson`, `raise_exception`, `strftime_now`, loop controls, generation tags), byte for byte. Time,
// memory and output are bounded, because templates come with models that strangers made.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/tool_calls/format.h"

namespace redpoll::text {

/// Variables that every rendering sees.
struct TemplateOptions {
  std::string bos_token;
  std::string eos_token;
};

/// What a request brings. References must stay valid during the call.
struct TemplateInput {
  const json::array& messages;
  const json::array& tools;  // empty: templates see None
  bool add_generation_prompt = true;
  const json::object& kwargs;  // further variables; may set any but `messages` and `tools`
};

/// Immutable: any number of threads may use one.
class ChatTemplate {
 public:
  /// kInvalidArgument with line and reason if the template does not parse.
  [[nodiscard]] static Result<std::shared_ptr<const ChatTemplate>> compile(std::string_view source,
                                                                           const TemplateOptions& options = {});
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// kInvalidArgument: with the template's own words if it refuses the conversation (raise_exception), else with
  /// "chat template failed: ..." (wrong types, endless loops, too much output). About 0.2 ms for an ordinary chat.
  [[nodiscard]] Result<std::string> render(
      const TemplateInput& input, std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;

  /// Whether the template reads the variable `tools` at all. If not, it shows none to the model.
  [[nodiscard]] bool reads_tools() const { return reads_tools_; }
  /// How the template tells the model to write calls; nothing if it tells of no format that can be read.
  [[nodiscard]] std::optional<ToolCallFormat> tool_call_format() const { return tool_call_format_; }

  /// As `render`, with exactly the variables of `context` besides those of TemplateOptions.
  [[nodiscard]] Result<std::string> render_context(const json::object& context,
                                                   std::chrono::system_clock::time_point now) const;

 private:
  struct Native;
  ChatTemplate(std::unique_ptr<Native> native, TemplateOptions options, std::string_view source);

  std::unique_ptr<Native> native_;
  TemplateOptions options_;
  bool reads_tools_;
  std::optional<ToolCallFormat> tool_call_format_;
};

}  // namespace redpoll::text
