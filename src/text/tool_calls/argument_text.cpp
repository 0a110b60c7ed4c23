#include "text/tool_calls/argument_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace redpoll::text {
namespace {

constexpr std::size_t kLongestEntity = 10;  // "&#x10FFFF;"

// Of "#39" or "#x27".
std::optional<char32_t> numbered_character(std::string_view name) {
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code == 0 || is_surrogate || code > 0x10FFFF) return std::nullopt;
  return static_cast<char32_t>(code);
}

std::optional<char32_t> character_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, char32_t>, 5> kNames = {
      {{"lt", U'<'}, {"gt", U'>'}, {"amp", U'&'}, {"quot", U'"'}, {"apos", U'\''}}};
  if (name.starts_with('#')) return numbered_character(name);
  const auto* found = std::ranges::find(kNames, name, &std::pair<std::string_view, char32_t>::first);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

void append_without_entities(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find('&'), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    const std::size_t end = text.substr(0, kLongestEntity).find(';');
    const auto character = end == std::string_view::npos ? std::nullopt : character_named(text.substr(1, end - 1));
    if (character) {
      append_utf8(out, *character);
      text.remove_prefix(end + 1);
    } else if (!text.empty()) {
      out += text.front();
      text.remove_prefix(1);
    }
  }
}

}  // namespace

std::string_view between_lines(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

std::string xml_text(std::string_view value) {
  std::string out;
  if (value.find(kSectionBegin) == std::string_view::npos) {
    append_without_entities(out, value);
    return out;
  }
  const std::string_view whole = trim(value);
  const bool is_wrapped = whole.starts_with(kSectionBegin) && whole.ends_with(kSectionEnd);
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t begin = std::min(rest.find(kSectionBegin), rest.size());
    const std::string_view outside = rest.substr(0, begin);
    if (is_wrapped && outside.find(kSectionEnd) != std::string_view::npos) {
      return std::string(whole.substr(kSectionBegin.size(), whole.size() - kSectionBegin.size() - kSectionEnd.size()));
    }
    if (!trim(outside).empty()) append_without_entities(out, outside);
    if (begin == rest.size()) break;
    rest.remove_prefix(begin + kSectionBegin.size());
    const std::size_t end = std::min(rest.find(kSectionEnd), rest.size());
    out += rest.substr(0, end);
    rest.remove_prefix(std::min(end + kSectionEnd.size(), rest.size()));
  }
  return out;
}

}  // namespace redpoll::text
