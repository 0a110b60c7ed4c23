// Small helpers for text: what a message may show of what somebody sent, what a terminal may show at all, and trimming.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace redpoll {

/// Without the spaces, tabs and line ends around it.
[[nodiscard]] std::string_view trim(std::string_view text);

/// Valid UTF-8 of at most `max_bytes`, which must be more than 3, plus what replacing broken bytes adds; a longer text
/// loses its end, whole characters of it, to "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t max_bytes = 100);

/// The same in single quotes. Every message that repeats a client's text does it by this, so that no request can make
/// an answer or a log line as long as itself.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Text that terminals, logs and JSON can hold whatever a client or a file put into it: valid UTF-8 on one line,
/// control characters as "\\n" or "\\x1b". Whoever prints does it, so that messages may quote what they found.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace redpoll
