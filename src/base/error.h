// Error and Result: how everything that is driven from outside (requests, files, checkpoints, templates, the
// network) reports failure. A failing function returns an Error whose message says what was expected and what was
// got, so that the reader knows what to do. Exceptions are left to MLX and the standard library; they are caught in
// two places only (the engine step and the session). This file knows nothing of HTTP: api/errors maps codes to status.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace redpoll {

enum class ErrorCode {
  kInvalidArgument,        // the caller sent something malformed or out of range
  kContextLengthExceeded,  // the prompt cannot fit; the message holds both numbers
  kUnauthorized,           // no key or a wrong one
  kForbidden,              // Host or Origin not allowed
  kNotFound,               // no such route, file or object
  kModelNotFound,          // no such model; the message lists what is there
  kMethodNotAllowed,       // the route exists for other methods
  kPayloadTooLarge,        // body or header over its limit
  kUnsupportedMediaType,   // content type that no handler reads
  kQueueFull,              // try again later
  kUnavailable,            // the engine cannot answer now
  kTimeout,                // a deadline of ours passed
  kRequestTimeout,         // the client did not send its request in time
  kCancelled,              // the client went away or asked to stop
  kCorruptFile,            // a file whose content contradicts itself
  kUnsupported,            // understood, but not something this program does
  kIo,                     // the operating system said no
  kInternal,               // a fault of ours
};

/// The stable lower-case name of a code, for logs: "invalid_argument".
[[nodiscard]] std::string_view error_code_name(ErrorCode code);

/// A failure as a value. `param` names the request field, flag or key at fault, or is empty.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// Shorthand for `return fail(ErrorCode::kIo, "...")`.
[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string param = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(param)});
}

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view why);
}  // namespace internal

}  // namespace redpoll

/// Aborts with file, line and reason. For programmer errors only: never reachable from input.
#define CHECK(condition, why)                                                                 \
  do {                                                                                        \
    if (!(condition)) ::redpoll::internal::check_failed(__FILE__, __LINE__, #condition, why); \
  } while (false)

#define REDPOLL_CONCAT_INNER(a, b) a##b
#define REDPOLL_CONCAT(a, b) REDPOLL_CONCAT_INNER(a, b)

/// Returns the Error of a failed Status from the enclosing function.
#define RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                             \
    if (auto status_ = (expression); !status_) return std::unexpected(std::move(status_).error()); \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot be put into parentheses.
/// `ASSIGN_OR_RETURN(auto value, compute())`: binds the value or returns the Error from the enclosing function.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(REDPOLL_CONCAT(result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(result, declaration, expression)   \
  auto result = (expression);                                     \
  if (!result) return std::unexpected(std::move(result).error()); \
  declaration = std::move(*result)
// NOLINTEND(bugprone-macro-parentheses)
