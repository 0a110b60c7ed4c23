// ClientLink: the socket to one client, with a deadline on what is pending, writes that take turns, and the watch that
// notices a client who goes away while nothing is being read or written. Knows bytes, not HTTP.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/task.h"

namespace redpoll::http {

/// Lives on the strand of its connection: no function may be called from elsewhere. Held by shared_ptr, because
/// pending operations keep it alive.
class ClientLink : public std::enable_shared_from_this<ClientLink> {
 public:
  ClientLink(boost::asio::ip::tcp::socket socket, std::chrono::milliseconds write_timeout);

  [[nodiscard]] boost::asio::ip::tcp::socket& socket() { return socket_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }

  /// Writes all of it, waiting for its turn and for the client to read. False: the client has gone.
  [[nodiscard]] Task<bool> write(std::string bytes);

  /// Cancels whatever is pending on the socket after `timeout`, and what is begun later, until `stop_deadline`, which
  /// says whether that happened.
  void start_deadline(std::chrono::milliseconds timeout);
  bool stop_deadline();

  [[nodiscard]] bool gone() const { return gone_; }
  /// Runs the callbacks once and cancels what is pending.
  void mark_gone();
  void on_gone(std::function<void()> callback);
  void clear_callbacks() { callbacks_.clear(); }

  /// Watches for the client's going until `stop_watching`. A client that only closed its sending side, or sent more
  /// bytes, has not gone. Since a closed client looks like a half-closed one until it is written to, `probe` is sent to
  /// the latter from time to time: bytes that a living client ignores and a closed one answers with a reset. An empty
  /// probe sends nothing.
  void watch(std::string probe);
  void set_probe(std::string probe) { probe_ = std::move(probe); }
  void stop_watching();

  /// Ends our sending side, then reads and drops for a moment what the client still sends: closing with unread bytes
  /// would reset the connection and could destroy the answer before the client has read it.
  [[nodiscard]] Task<void> close_gently(std::chrono::milliseconds limit);
  void close();

 private:
  void cancel_after(std::chrono::milliseconds delay);
  void wait_until_readable();
  void look_at_peer();
  void look_again_later();
  void send_probe();

  boost::asio::ip::tcp::socket socket_;
  std::chrono::milliseconds write_timeout_;
  std::uint64_t bytes_sent_ = 0;

  bool writing_ = false;
  boost::asio::steady_timer turn_;  // never expires; cancelled when a write ends

  boost::asio::steady_timer deadline_;
  std::uint64_t deadline_generation_ = 0;  // tells a late expiry from that of the deadline that is running
  bool deadline_expired_ = false;

  bool gone_ = false;
  std::vector<std::function<void()>> callbacks_;

  std::uint64_t watch_generation_ = 0;
  boost::asio::cancellation_signal stop_waiting_;
  boost::asio::steady_timer next_look_;
  std::string probe_;
  std::chrono::steady_clock::time_point last_probe_;
};

}  // namespace redpoll::http
