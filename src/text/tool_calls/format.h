// ToolCallFormat: how a model writes the calls of its tools. Only its chat template says so, which shows the model the
// markup that it shall write; names of models are not looked at.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/tokenizer.h"

namespace redpoll::text {

enum class ToolCallFormat {
  kJson,          // <tool_call>{"name": NAME, "arguments": {...}}</tool_call>: Hermes, Qwen
  kFunctionTags,  // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>: Qwen Coder,
                  // Qwen3.5
  kNamedTags,     // <function name="NAME"><param name="KEY">VALUE</param></function>: MiniCPM5
};

/// The format that a template shows to the model; nothing when it shows none of these.
[[nodiscard]] std::optional<ToolCallFormat> tool_call_format(std::string_view template_source);

/// The special tokens that are a part of the format's markup, as those of MiniCPM5 are: to hide them from the text, as
/// others are, would be to lose the calls. Looks at the whole vocabulary, so once for each model.
[[nodiscard]] std::vector<TokenId> tool_call_markup_ids(ToolCallFormat format, const Tokenizer& tokenizer);

}  // namespace redpoll::text
