#include "server/responses.h"

#include "api/errors.h"

namespace redpoll::server {

std::vector<http::Header> warning_headers(const std::vector<std::string>& unknown_fields) {
  if (unknown_fields.empty()) return {};
  return {{"x-redpoll-warnings", api::format_warnings(unknown_fields)}};
}

http::Response json_response(std::string body, const std::vector<std::string>& unknown_fields) {
  http::Response response;
  response.headers = warning_headers(unknown_fields);
  response.body = std::move(body);
  return response;
}

http::Response error_response(const Error& error) {
  http::Response response;
  response.status = api::http_status(error.code);
  response.headers = api::error_headers(error.code);
  response.body = api::openai_error_body(error);
  return response;
}

}  // namespace redpoll::server
