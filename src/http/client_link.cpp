#include "http/client_link.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "http/peer_state.h"

namespace redpoll::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Applies only after a client has half-closed or sent bytes early, when the socket stays readable and so cannot be
// waited for.
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::chrono::milliseconds kProbeInterval{2000};
constexpr std::chrono::milliseconds kCancelInterval{100};

}  // namespace

ClientLink::ClientLink(asio::ip::tcp::socket socket, std::chrono::milliseconds write_timeout)
    : socket_(std::move(socket)),
      write_timeout_(write_timeout),
      turn_(socket_.get_executor(), asio::steady_timer::time_point::max()),
      deadline_(socket_.get_executor()),
      next_look_(socket_.get_executor()) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  limit_silence(socket_.native_handle(), write_timeout_);
}

Task<bool> ClientLink::write(std::string bytes) {
  while (writing_ && !gone_) {
    error_code ignored;
    co_await turn_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  if (gone_) co_return false;
  writing_ = true;
  start_deadline(write_timeout_);
  error_code error;
  const auto written =
      co_await asio::async_write(socket_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  stop_deadline();
  bytes_sent_ += written;
  writing_ = false;
  turn_.cancel();
  if (error) mark_gone();
  co_return !gone_;
}

void ClientLink::start_deadline(std::chrono::milliseconds timeout) {
  ++deadline_generation_;
  deadline_expired_ = false;
  cancel_after(timeout);
}

// An operation of several reads or writes may be between two of them, where there is nothing to cancel, so this goes on
// until it has ended.
void ClientLink::cancel_after(std::chrono::milliseconds delay) {
  deadline_.expires_after(delay);
  deadline_.async_wait([self = shared_from_this(), generation = deadline_generation_](error_code error) {
    if (error || generation != self->deadline_generation_) return;
    self->deadline_expired_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
    self->cancel_after(kCancelInterval);
  });
}

bool ClientLink::stop_deadline() {
  ++deadline_generation_;
  deadline_.cancel();
  return std::exchange(deadline_expired_, false);
}

void ClientLink::mark_gone() {
  if (std::exchange(gone_, true)) return;
  error_code ignored;
  socket_.cancel(ignored);
  turn_.cancel();
  const auto callbacks = std::exchange(callbacks_, {});
  for (const auto& callback : callbacks) callback();
}

void ClientLink::on_gone(std::function<void()> callback) {
  if (gone_) {
    callback();
  } else {
    callbacks_.push_back(std::move(callback));
  }
}

void ClientLink::watch(std::string probe) {
  ++watch_generation_;
  probe_ = std::move(probe);
  last_probe_ = {};
  wait_until_readable();
}

void ClientLink::stop_watching() {
  ++watch_generation_;
  stop_waiting_.emit(asio::cancellation_type::total);
  next_look_.cancel();
}

void ClientLink::wait_until_readable() {
  auto on_readable = [self = shared_from_this(), generation = watch_generation_](error_code error) {
    if (error || generation != self->watch_generation_) return;
    self->look_at_peer();
  };
  socket_.async_wait(asio::socket_base::wait_read,
                     asio::bind_cancellation_slot(stop_waiting_.slot(), std::move(on_readable)));
}

void ClientLink::look_at_peer() {
  switch (peer_state(socket_.native_handle())) {
    case PeerState::kQuiet: wait_until_readable(); return;
    case PeerState::kGone: mark_gone(); return;
    case PeerState::kEndOfInput:
      send_probe();
      look_again_later();
      return;
    case PeerState::kHasData: look_again_later(); return;
  }
}

void ClientLink::look_again_later() {
  next_look_.expires_after(kLookInterval);
  next_look_.async_wait([self = shared_from_this(), generation = watch_generation_](error_code error) {
    if (error || generation != self->watch_generation_ || self->gone_) return;
    self->look_at_peer();
  });
}

void ClientLink::send_probe() {
  const auto now = std::chrono::steady_clock::now();
  // A write under way is itself a probe.
  if (writing_ || probe_.empty() || now - last_probe_ < kProbeInterval) return;
  last_probe_ = now;
  writing_ = true;
  const auto bytes = std::make_shared<const std::string>(probe_);
  start_deadline(write_timeout_);
  asio::async_write(socket_, asio::buffer(*bytes), [self = shared_from_this(), bytes](error_code error, std::size_t n) {
    self->stop_deadline();
    self->bytes_sent_ += n;
    self->writing_ = false;
    self->turn_.cancel();
    if (error) self->mark_gone();
  });
}

Task<void> ClientLink::close_gently(std::chrono::milliseconds limit) {
  error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  start_deadline(limit);
  std::array<char, 16384> dropped;
  while (!error && !gone_ && !deadline_expired_) {
    co_await socket_.async_read_some(asio::buffer(dropped), asio::redirect_error(asio::use_awaitable, error));
  }
  stop_deadline();
  close();
}

void ClientLink::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace redpoll::http
