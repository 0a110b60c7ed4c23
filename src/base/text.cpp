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

std::string printable(std::string_view text) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string out;
  const std::string valid = replace_invalid_utf8(text);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    auto byte = static_cast<unsigned char>(valid[i]);
    // U+0080 to U+009F are 0xC2 and the code itself.
    const bool second_block = byte == 0xC2 && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
    if (second_block) byte = static_cast<unsigned char>(valid[++i]);
    if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F || second_block) {
      out += "\\x";
      out += kHexDigits[byte >> 4U];
      out += kHexDigits[byte & 0xFU];
    } else {
      out += valid[i];
    }
  }
  return out;
}

}  // namespace redpoll
