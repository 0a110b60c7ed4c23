#include "api/errors.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

namespace redpoll::api {
namespace {

constexpr std::size_t kMaxWarnings = 20;
constexpr std::size_t kMaxWarningBytes = 64;

struct Mapping {
  int status;
  std::string_view type;
  std::string_view code;  // empty: null
};

Mapping mapping_of(ErrorCode code) {
  constexpr std::string_view kRequest = "invalid_request_error";
  constexpr std::string_view kServer = "server_error";
  switch (code) {
    case ErrorCode::kInvalidArgument: return {400, kRequest, ""};
    case ErrorCode::kContextLengthExceeded: return {400, kRequest, "context_length_exceeded"};
    case ErrorCode::kUnsupported: return {400, kRequest, "unsupported_value"};
    case ErrorCode::kUnauthorized: return {401, kRequest, "invalid_api_key"};
    case ErrorCode::kForbidden: return {403, "permission_error", "forbidden"};
    case ErrorCode::kNotFound: return {404, kRequest, "not_found"};
    case ErrorCode::kModelNotFound: return {404, kRequest, "model_not_found"};
    case ErrorCode::kMethodNotAllowed: return {405, kRequest, "method_not_allowed"};
    case ErrorCode::kRequestTimeout: return {408, kRequest, "request_timeout"};
    case ErrorCode::kPayloadTooLarge: return {413, kRequest, "payload_too_large"};
    case ErrorCode::kUnsupportedMediaType: return {415, kRequest, "unsupported_media_type"};
    case ErrorCode::kQueueFull: return {429, "rate_limit_error", "queue_full"};
    case ErrorCode::kUnavailable: return {503, kServer, "unavailable"};
    // A client that went away reads nothing; one that does read was cut off by a server that is stopping.
    case ErrorCode::kCancelled: return {503, kServer, "cancelled"};
    case ErrorCode::kTimeout: return {504, kServer, "timeout"};
    case ErrorCode::kCorruptFile:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: return {500, kServer, "internal_error"};
  }
  return {500, kServer, "internal_error"};
}

// Field names come from the client and go into a header: only what cannot end the line or the list survives.
std::string header_safe(std::string_view name) {
  std::string out(name.substr(0, kMaxWarningBytes));
  std::ranges::replace_if(out, [](char c) { return !(c > ' ' && c < 0x7F) || c == ',' || c == '"' || c == '\\'; }, '?');
  return out;
}

}  // namespace

int http_status(ErrorCode code) { return mapping_of(code).status; }

std::string openai_error_body(const Error& error) {
  const Mapping mapping = mapping_of(error.code);
  const auto string_or_null = [](std::string_view text) -> json::value {
    if (text.empty()) return nullptr;
    return json::string(replace_invalid_utf8(text));
  };
  json::object fields;
  fields["message"] = replace_invalid_utf8(error.message);
  fields["type"] = mapping.type;
  fields["param"] = string_or_null(error.param);
  fields["code"] = string_or_null(mapping.code);
  json::object body;
  body["error"] = std::move(fields);
  return dump_json(body);
}

std::vector<Header> error_headers(ErrorCode code) {
  switch (http_status(code)) {
    case 401: return {{"WWW-Authenticate", "Bearer"}};
    case 429: return {{"Retry-After", "1"}};
    case 503: return {{"Retry-After", "5"}};
    default: return {};
  }
}

std::string format_warnings(const std::vector<std::string>& unknown_fields) {
  if (unknown_fields.empty()) return {};
  std::string out = "unknown fields: ";
  const std::size_t shown = std::min(unknown_fields.size(), kMaxWarnings);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) out += ", ";
    out += header_safe(unknown_fields[i]);
  }
  if (shown < unknown_fields.size()) out += " and " + std::to_string(unknown_fields.size() - shown) + " more";
  return out;
}

Status check_model(std::string_view requested, std::string_view served) {
  if (requested.empty() || requested == "default" || requested == served) return {};
  return fail(ErrorCode::kModelNotFound,
              "model " + in_quotes(requested) + " is not served here; served: " + in_quotes(served), "model");
}

}  // namespace redpoll::api
