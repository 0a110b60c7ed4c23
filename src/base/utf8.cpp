#include "base/utf8.h"

#include <algorithm>

#include "base/error.h"

namespace redpoll {
namespace {

struct Step {
  std::size_t length;  // bytes consumed: a whole character, or the maximal subpart of an ill-formed one
  bool valid;
  bool truncated;  // ill-formed only because the input ended
};

// Table 3-7 of the Unicode standard: the second byte's range depends on the first.
Step next_character(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  std::size_t need = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (std::size_t i = 1; i <= need; ++i) {
    if (i == s.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {need + 1, true, false};
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t length = 0;
  while (length < bytes.size()) {
    const Step step = next_character(bytes.substr(length));
    if (!step.valid) break;
    length += step.length;
  }
  return length;
}

bool is_valid_utf8(std::string_view bytes) { return valid_utf8_prefix(bytes) == bytes.size(); }

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Step step = next_character(bytes);
    if (step.valid) {
      out += bytes.substr(0, step.length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    bytes.remove_prefix(step.length);
  }
  return out;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::size_t complete_utf8_prefix(std::string_view bytes) {
  // Only the last three bytes can belong to an unfinished character.
  const std::size_t from = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (std::size_t i = from; i < bytes.size(); ++i) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    if (lead < 0xC2 || lead > 0xF4) continue;
    if (next_character(bytes.substr(i)).truncated) return i;
  }
  return bytes.size();
}

void append_utf8(std::string& out, char32_t code_point) {
  CHECK(code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF), "not a scalar value");
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | (code_point >> 6));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | (code_point >> 12));
    out += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code_point >> 18));
    out += static_cast<char>(0x80 | ((code_point >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

}  // namespace redpoll
