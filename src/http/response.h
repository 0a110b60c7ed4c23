// Response: what a handler answers, as plain values; and ErrorContext, from which the owner of the server makes the
// Responses of errors that arise here (limits, malformed requests, refused hosts), so that their shape is not this
// folder's business.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/request.h"

namespace redpoll::http {

struct Response {
  int status = 200;
  std::vector<Header> headers;  // further ones; length, date, request id and CORS headers are added by the server
  std::string content_type = "application/json";
  std::string body;
};

/// An error that the server itself answers. `path` and `request_id` are known even if the request could not be read;
/// the path is then "".
struct ErrorContext {
  int status = 500;
  Error error;
  std::string path;
  std::string request_id;
};

/// Makes the Response to an ErrorContext. Headers that the protocol demands (WWW-Authenticate, Allow, Retry-After) are
/// added where it has none of its own.
using ErrorFormatter = std::function<Response(const ErrorContext&)>;

/// Makes the data of the last events of a stream whose handler threw.
using StreamErrorFormatter = std::function<std::vector<std::string>(const ErrorContext&)>;

/// {"error":{"message":...,"code":...}}: what is used without a formatter.
[[nodiscard]] Response default_error_response(const ErrorContext& context);

/// "Not Found" for 404.
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace redpoll::http
