// Errors and warnings as HTTP clients see them: which status, type and code an ErrorCode has in the OpenAI protocol.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace redpoll::api {

/// The one HTTP status of a code.
[[nodiscard]] int http_status(ErrorCode code);

/// {"error": {"message", "type", "param", "code"}}: the body of a failed request, and the data of the event that ends a
/// failed stream. Bytes of the message that are not UTF-8 are replaced.
[[nodiscard]] std::string openai_error_body(const Error& error);

using Header = std::pair<std::string, std::string>;
/// Headers that must go with the status: Retry-After (429, 503), WWW-Authenticate (401). Empty for the others.
[[nodiscard]] std::vector<Header> error_headers(ErrorCode code);

/// The value of `x-redpoll-warnings` for the unknown fields of a request, safe in a header whatever their names are:
/// "unknown fields: foo, options.bar". Empty when there are none.
[[nodiscard]] std::string format_warnings(const std::vector<std::string>& unknown_fields);

/// kModelNotFound for `requested`, naming what is served, unless it names `served` or nothing ("" or "default").
[[nodiscard]] Status check_model(std::string_view requested, std::string_view served);

}  // namespace redpoll::api
