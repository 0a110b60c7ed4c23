#include "text/tool_calls/format.h"

#include <algorithm>
#include <span>
#include <string>

namespace redpoll::text {
namespace {

constexpr std::string_view kCallTag = "<tool_call>";

// The source as the model will see its texts: string literals write some characters with a backslash.
std::string without_escapes(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool escapes = source[i] == '\\' && i + 1 < source.size();
    if (!escapes) {
      out += source[i];
    } else {
      const char escaped = source[++i];
      out += escaped == 'n' ? '\n' : escaped;
    }
  }
  return out;
}

// What a template may write between two parts of one text: white space, and the ends and beginnings of literals,
// expressions and blocks.
std::string_view skip_seams(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n'\"{}%-+~("), text.size()));
}

bool shows_after_call_tag(std::string_view source, auto&& follows) {
  for (std::size_t at = source.find(kCallTag); at != std::string_view::npos; at = source.find(kCallTag, at + 1)) {
    if (follows(source.substr(at + kCallTag.size()))) return true;
  }
  return false;
}

// {"name" or {"arguments", in whatever pieces.
bool begins_with_call_object(std::string_view text) {
  const std::string_view rest = skip_seams(text);
  const std::string_view seams = text.substr(0, text.size() - rest.size());
  const bool opens_key = seams.ends_with("{\"") || seams.ends_with("{'");
  const std::string_view key = rest.substr(0, rest.find_first_of("'\""));
  return opens_key && (key == "name" || key == "arguments");
}

std::span<const std::string_view> markup_of(ToolCallFormat format) {
  static constexpr std::string_view kJson[] = {"<tool_call>", "</tool_call>"};
  static constexpr std::string_view kFunctionTags[] = {
      "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"};
  static constexpr std::string_view kNamedTags[] = {"<function name=\"", "</function>", "<param name=\"",
                                                    "</param>",          "<![CDATA[",   "]]>"};
  switch (format) {
    case ToolCallFormat::kJson: return kJson;
    case ToolCallFormat::kFunctionTags: return kFunctionTags;
    case ToolCallFormat::kNamedTags: break;
  }
  return kNamedTags;
}

}  // namespace

std::optional<ToolCallFormat> tool_call_format(std::string_view template_source) {
  const std::string source = without_escapes(template_source);
  const auto shows = [&source](std::string_view markup) { return source.find(markup) != std::string::npos; };
  if (shows("<function name=") && shows("<param name=")) return ToolCallFormat::kNamedTags;
  const auto is_function_tag = [](std::string_view text) { return skip_seams(text).starts_with("<function="); };
  if (shows("<parameter=") && shows_after_call_tag(source, is_function_tag)) return ToolCallFormat::kFunctionTags;
  if (shows_after_call_tag(source, begins_with_call_object)) return ToolCallFormat::kJson;
  return std::nullopt;
}

std::vector<TokenId> tool_call_markup_ids(ToolCallFormat format, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view text = tokenizer.token_view(id);
    if (!tokenizer.is_special(id) || text.empty()) continue;
    const auto is_part = [text](std::string_view markup) { return markup.find(text) != std::string_view::npos; };
    if (std::ranges::any_of(markup_of(format), is_part)) ids.push_back(id);
  }
  return ids;
}

}  // namespace redpoll::text
