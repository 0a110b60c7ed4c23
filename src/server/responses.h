// Responses that every handler gives: JSON, and errors in the shape of the API.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "http/response.h"

namespace redpoll::server {

/// 200 with `body`, and with x-redpoll-warnings when the request had fields that nobody read.
[[nodiscard]] http::Response json_response(std::string body, const std::vector<std::string>& unknown_fields = {});

/// Status, headers and body of an Error in OpenAI's shape.
[[nodiscard]] http::Response error_response(const Error& error);

/// The x-redpoll-warnings header, or nothing.
[[nodiscard]] std::vector<http::Header> warning_headers(const std::vector<std::string>& unknown_fields);

}  // namespace redpoll::server
