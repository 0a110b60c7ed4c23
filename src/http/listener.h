// Listener: a listening socket and the loop that accepts from it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/task.h"

namespace redpoll::http {

/// Listens on every address that `host` stands for, at least one. Errors are kIo and name host, port and reason.
[[nodiscard]] Result<std::vector<boost::asio::ip::tcp::acceptor>> listen_on(boost::asio::io_context& io,
                                                                            const std::string& host,
                                                                            std::uint16_t port);

/// Gives each accepted socket, on a strand of its own, to `on_accept`, which is called on an I/O thread. Outlives the
/// threads that run it.
class Listener {
 public:
  using OnAccept = std::function<void(boost::asio::ip::tcp::socket)>;
  Listener(boost::asio::io_context& io, boost::asio::ip::tcp::acceptor acceptor, OnAccept on_accept);

  void start();
  /// From any thread.
  void stop();

 private:
  [[nodiscard]] Task<void> accept_loop();

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  OnAccept on_accept_;
};

}  // namespace redpoll::http
