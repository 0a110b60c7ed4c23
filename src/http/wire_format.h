// The bytes that leave: response heads, chunks and server-sent events. Pure text, no sockets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/request.h"

namespace redpoll::http {

/// What a response head is made of. Values are cleaned of line breaks, so that no header can start another.
struct ResponseHead {
  int status = 200;
  std::string content_type;
  std::vector<Header> headers;
  std::string request_id;
  bool keep_alive = true;
  bool http_1_0 = false;
  /// nullopt: no body of known length; `chunked` says whether it is framed or ends with the connection.
  std::optional<std::size_t> content_length;
  bool chunked = false;
};

/// Status line, headers and the empty line. Adds date, x-request-id and x-content-type-options, and for HTML the
/// headers that keep the page out of foreign frames.
[[nodiscard]] std::string format_head(const ResponseHead& head);

/// One chunk of a chunked body; `payload` must not be empty, since that would end the body.
[[nodiscard]] std::string format_chunk(std::string_view payload);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// "event: E\ndata: D\n\n", with one data field for each line of `data`.
[[nodiscard]] std::string format_event(std::string_view data, std::string_view event);
/// ": text\n\n"
[[nodiscard]] std::string format_comment(std::string_view text);

inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace redpoll::http
