// ServerOptions: everything that the owner of a Server decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "http/response.h"
#include "http/security.h"

namespace redpoll::http {

/// One line of the access log. Holds no header and no body, so no key and no prompt can reach a log through it.
struct AccessRecord {
  std::string request_id;
  std::string remote_address;
  std::string method;  // "" if the request could not be read
  std::string path;    // without the query
  int status = 0;      // of the head that was sent; 499 if the client had gone before one was
  std::uint64_t bytes_sent = 0;
  std::chrono::microseconds duration{0};
  bool client_gone = false;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; every address of a name is listened on; "::" serves IPv4 too
  std::uint16_t port = 8080;       // 0: any free one
  int io_threads = 1;
  int max_connections = 1024;  // further ones are answered 503
  std::size_t max_body_bytes = std::size_t{32} << 20U;
  std::size_t max_header_bytes = std::size_t{64} << 10U;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte (or the connection) to the end of the head
  std::chrono::milliseconds body_timeout{120'000};   // for the whole body
  std::chrono::milliseconds keep_alive_timeout{75'000};  // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};       // for one write to a client that does not read; also how long
                                                         // the system waits for any sign of life where data is due
  SecurityOptions security;
  ErrorFormatter format_error;                          // default: default_error_response
  StreamErrorFormatter format_stream_error;             // default: one event, the body of format_error
  std::function<void(const AccessRecord&)> access_log;  // called on an I/O thread after each exchange; must not block
};

}  // namespace redpoll::http
