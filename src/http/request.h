// Request: one HTTP request after its head and body were read, as plain values. Knows nothing of sockets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace redpoll::http {

/// Name and value, in the order of the wire; names compare without case.
using Header = std::pair<std::string, std::string>;

struct Request {
  std::string method;                                           // "GET", "POST", ...
  std::string target;                                           // as sent: "/v1/models?limit=3"
  std::string path;                                             // the target before '?', still percent-encoded
  std::vector<std::pair<std::string, std::string>> parameters;  // what the route's {names} matched, decoded
  std::vector<Header> headers;
  std::string body;
  std::string id;              // the client's x-request-id if it is a sane one, else made here
  std::string remote_address;  // "127.0.0.1:50412", "[::1]:50412"

  /// The first header of that name, or "". The view lives as long as the headers do.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] bool has_header(std::string_view name) const;
  /// What `{name}` in the route's pattern matched, or "".
  [[nodiscard]] std::string_view parameter(std::string_view name) const;
};

/// Equal but for ASCII case.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The first header of that name, or nullptr.
[[nodiscard]] const std::string* find_header(const std::vector<Header>& headers, std::string_view name);

/// kUnsupportedMediaType unless the request's content type, parameters aside, is `expected` ("application/json").
[[nodiscard]] Status require_content_type(const Request& request, std::string_view expected);

/// Undoes %XX; kInvalidArgument when a '%' is not followed by two hex digits or the result is not UTF-8.
[[nodiscard]] Result<std::string> percent_decode(std::string_view text);

/// Fills the path of `request` from its target; kInvalidArgument for anything but "/path", "/path?query" and "*". What
/// the query says is parse_query's business.
[[nodiscard]] Status parse_target(Request& request);

using QueryField = std::pair<std::string, std::string>;
/// The fields of a target's query, decoded, in their order: "/fit?context=8192&x" has ("context", "8192") and ("x",
/// ""). Fails as percent_decode does.
[[nodiscard]] Result<std::vector<QueryField>> parse_query(std::string_view target);

/// `proposed` if it is 1 to 128 characters of A-Z a-z 0-9 . _ : -, else a fresh random "req_<24 hex digits>".
[[nodiscard]] std::string choose_request_id(std::string_view proposed);

}  // namespace redpoll::http
