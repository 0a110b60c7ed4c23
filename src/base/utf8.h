// UTF-8: validation and replacement by the Unicode "maximal subpart" rule, and the split that keeps half a character
// out of a stream.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace redpoll {

/// The length of the longest prefix that is valid UTF-8.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view bytes);
[[nodiscard]] bool is_valid_utf8(std::string_view bytes);

/// Copies `bytes`, each maximal subpart of an ill-formed sequence becoming one U+FFFD (Unicode 15, section 3.9).
[[nodiscard]] std::string replace_invalid_utf8(std::string_view bytes);

/// Characters (code points) that begin in `text`.
[[nodiscard]] std::size_t count_characters(std::string_view text);

/// The length of the longest prefix that does not end inside a character that more bytes could complete. Bytes that
/// can never become a character count as complete, so that they are not held back for ever.
[[nodiscard]] std::size_t complete_utf8_prefix(std::string_view bytes);

/// Appends one code point (U+0000 to U+10FFFF, no surrogates).
void append_utf8(std::string& out, char32_t code_point);

}  // namespace redpoll
