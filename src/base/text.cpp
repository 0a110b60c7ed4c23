#include "base/text.h"

#include "base/utf8.h"

namespace redpoll {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string shortened(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kEllipsis = "...";
  if (text.size() <= max_bytes) return replace_invalid_utf8(text);
  const std::string_view kept = text.substr(0, max_bytes - kEllipsis.size());
  return replace_invalid_utf8(kept.substr(0, complete_utf8_prefix(kept))).append(kEllipsis);
}

std::string in_quotes(std::string_view text) { return "'" + shortened(text) + "'"; }

}  // namespace redpoll
