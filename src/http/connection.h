// Connection: the life of one client connection: requests in, checks, handler, response out, until either side closes.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/client_link.h"
#include "http/connection_exchange.h"
#include "http/request_reader.h"
#include "http/router.h"
#include "http/server_options.h"
#include "http/task.h"

namespace redpoll::http {

/// What all connections of a server share, read-only.
struct ServerContext {
  ServerOptions options;
  Router router;
  ApiKeys keys;
};

/// Lives on its strand. `run` is the only coroutine; the other functions are posted to the strand by the server.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<const ServerContext> context);

  /// Serves until the connection ends. Throws nothing but what the standard library throws when out of memory.
  [[nodiscard]] Task<void> run();
  /// Answers 503 to a connection beyond max_connections, and closes it.
  [[nodiscard]] Task<void> refuse();

  /// Closes an idle connection at once, another after its present exchange.
  void begin_shutdown();
  /// Treats the client as gone.
  void abort() { link_->mark_gone(); }

 private:
  struct Turn;
  enum class Next { kNextRequest, kCloseGently, kClose };

  [[nodiscard]] Task<Next> serve_one();
  [[nodiscard]] Task<void> serve(Turn& turn);
  [[nodiscard]] Task<bool> receive_body(Turn& turn);
  [[nodiscard]] Task<void> run_handler(Turn& turn);
  [[nodiscard]] Task<void> end_failed_stream(const Turn& turn, ConnectionExchange& exchange);
  [[nodiscard]] bool admit(Turn& turn) const;
  [[nodiscard]] bool admit_origin(Turn& turn) const;
  [[nodiscard]] bool find_route(Turn& turn) const;
  [[nodiscard]] bool admit_body(Turn& turn) const;
  void set_error(Turn& turn, int status, Error error) const;
  [[nodiscard]] Task<void> write_response(Turn& turn);
  [[nodiscard]] ResponseHead response_head(const Turn& turn) const;
  void report(const Turn& turn) const;

  std::shared_ptr<const ServerContext> context_;
  std::shared_ptr<ClientLink> link_;
  RequestReader reader_;
  std::string remote_address_;
  std::string local_host_;  // without the port
  bool stopping_ = false;
};

}  // namespace redpoll::http
