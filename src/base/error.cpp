#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace redpoll {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kContextLengthExceeded: return "context_length_exceeded";
    case ErrorCode::kUnauthorized: return "unauthorized";
    case ErrorCode::kForbidden: return "forbidden";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kModelNotFound: return "model_not_found";
    case ErrorCode::kMethodNotAllowed: return "method_not_allowed";
    case ErrorCode::kPayloadTooLarge: return "payload_too_large";
    case ErrorCode::kUnsupportedMediaType: return "unsupported_media_type";
    case ErrorCode::kQueueFull: return "queue_full";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kRequestTimeout: return "request_timeout";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kCorruptFile: return "corrupt_file";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

namespace internal {

void check_failed(const char* file, int line, const char* condition, std::string_view why) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: %.*s\n", file, line, condition, static_cast<int>(why.size()),
               why.data());
  std::abort();
}

}  // namespace internal
}  // namespace redpoll
