// RequestReader: takes requests off a connection, one after the other, under limits of size and time. The only user of
// Beast's parser. Head and body are read apart, so that a request can be refused before its body is accepted.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "http/client_link.h"
#include "http/request.h"
#include "http/server_options.h"
#include "http/task.h"

namespace redpoll::http {

/// The head of a request: everything of `request` but its body.
struct RequestHead {
  Request request;
  bool http_1_0 = false;
  bool keep_alive = true;
  bool has_body = false;
  std::optional<std::uint64_t> content_length;  // nullopt: none or chunked
};

/// Why there is no request. Status 0: nothing to answer, the connection is to be closed (the client has gone, or sent
/// nothing in time).
struct ReadFailure {
  int status = 0;
  Error error;
};

class RequestReader {
 public:
  RequestReader(ClientLink& link, const ServerOptions& options);
  ~RequestReader();

  /// Waits for the next request, for keep_alive_timeout at most, or header_timeout if it is the connection's first.
  [[nodiscard]] Task<std::expected<RequestHead, ReadFailure>> read_head();
  /// The body that belongs to the last head. At most once per head, and before the next read_head.
  [[nodiscard]] Task<std::expected<std::string, ReadFailure>> read_body();
  /// True while no byte of a request has come: the connection may be closed without losing anything.
  [[nodiscard]] bool idle() const { return idle_; }
  /// True if bytes of the body have come already, so that the client is not waiting for "100 Continue".
  [[nodiscard]] bool body_has_begun() const;

 private:
  struct Parser;
  [[nodiscard]] Task<bool> wait_for_first_byte();

  ClientLink& link_;
  const ServerOptions& options_;
  bool first_ = true;
  bool idle_ = true;
  std::unique_ptr<Parser> parser_;
};

}  // namespace redpoll::http
