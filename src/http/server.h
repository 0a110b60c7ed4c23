// Server: listens, accepts and runs one coroutine per connection on its own I/O threads. All of Asio, Beast and OpenSSL
// stays behind this header.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "http/router.h"
#include "http/server_options.h"

namespace redpoll::http {

/// Owns its threads. Take things down in this order: stop the server; end the workers that wake its coroutines; destroy
/// the server, and with it the coroutines that had not ended; then what those use. Its functions may be called from any
/// thread but an I/O thread.
class Server {
 public:
  /// Listens and serves. kIo if the address cannot be had; the message says which and why.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router);

  /// Stops with no grace unless `stop` was called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The port that is listened on, also where port 0 was asked for.
  [[nodiscard]] std::uint16_t port() const;
  /// Connections that are open now.
  [[nodiscard]] int num_connections() const;

  /// Stops accepting, closes idle connections, lets running exchanges finish for up to `grace`, then treats the clients
  /// of the rest as gone and closes them. Blocks; the later of two calls does nothing. kTimeout if some were cut off,
  /// with their number.
  [[nodiscard]] Status stop(std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace redpoll::http
