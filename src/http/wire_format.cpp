#include "http/wire_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "http/response.h"

namespace redpoll::http {
namespace {

void append_header(std::string& out, std::string_view name, std::string_view value) {
  const auto append_clean = [&out](std::string_view text) {
    for (const char c : text) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  };
  append_clean(name);
  out += ": ";
  append_clean(value);
  out += "\r\n";
}

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7). Spelled out, because strftime follows the locale.
std::string http_date(std::time_t now) {
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  const auto two = [](int value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return std::string(kDays[static_cast<std::size_t>(utc.tm_wday)]) + ", " + two(utc.tm_mday) + " " +
         kMonths[static_cast<std::size_t>(utc.tm_mon)] + " " + std::to_string(utc.tm_year + 1900) + " " +
         two(utc.tm_hour) + ":" + two(utc.tm_min) + ":" + two(utc.tm_sec) + " GMT";
}

void append_field(std::string& out, std::string_view name, std::string_view text) {
  out += name;
  out += ": ";
  out += text;
  out += '\n';
}

// Calls `line` for each line of `text`; CR LF, LF and CR all end one in the event stream format.
template <typename F>
void for_each_line(std::string_view text, F line) {
  for (;;) {
    const auto end = text.find_first_of("\r\n");
    line(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(text.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
}

}  // namespace

std::string format_head(const ResponseHead& head) {
  std::string out = head.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(head.status);
  out += ' ';
  out += reason_phrase(head.status);
  out += "\r\n";
  append_header(out, "date", http_date(std::time(nullptr)));
  append_header(out, "x-request-id", head.request_id);
  append_header(out, "x-content-type-options", "nosniff");
  if (!head.content_type.empty()) append_header(out, "content-type", head.content_type);
  if (head.content_type.starts_with("text/html")) {
    if (find_header(head.headers, "x-frame-options") == nullptr) append_header(out, "x-frame-options", "DENY");
    if (find_header(head.headers, "referrer-policy") == nullptr) append_header(out, "referrer-policy", "no-referrer");
  }
  for (const auto& [name, value] : head.headers) append_header(out, name, value);
  if (head.content_length) append_header(out, "content-length", std::to_string(*head.content_length));
  if (head.chunked) append_header(out, "transfer-encoding", "chunked");
  if (!head.keep_alive) append_header(out, "connection", "close");
  if (head.keep_alive && head.http_1_0) append_header(out, "connection", "keep-alive");
  out += "\r\n";
  return out;
}

std::string format_chunk(std::string_view payload) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), payload.size(), 16).ptr;
  std::string chunk(digits.data(), end);
  chunk.reserve(chunk.size() + payload.size() + 4);
  chunk += "\r\n";
  chunk += payload;
  chunk += "\r\n";
  return chunk;
}

std::string format_event(std::string_view data, std::string_view event) {
  std::string out;
  out.reserve(data.size() + event.size() + 24);
  if (!event.empty()) append_field(out, "event", event.substr(0, event.find_first_of("\r\n")));
  for_each_line(data, [&out](std::string_view line) { append_field(out, "data", line); });
  out += '\n';
  return out;
}

std::string format_comment(std::string_view text) {
  std::string out;
  for_each_line(text, [&out](std::string_view line) { append_field(out, "", line); });
  out += '\n';
  return out;
}

}  // namespace redpoll::http
