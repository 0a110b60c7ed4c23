#include "http/listener.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "http/signal.h"

namespace redpoll::http {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

// Out of descriptors or memory: others must finish first.
constexpr std::chrono::milliseconds kAcceptPause{100};

std::string place(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::unexpected<Error> cannot_listen(const std::string& host, std::uint16_t port, const error_code& cause) {
  const std::string start = "cannot listen on " + place(host, port) + ": ";
  if (cause == asio::error::address_in_use) {
    return fail(ErrorCode::kIo, start + "address already in use; choose another with --port", "port");
  }
  if (cause == asio::error::access_denied) {
    return fail(ErrorCode::kIo, start + "permission denied; choose a port above 1023 with --port", "port");
  }
  if (cause == boost::system::errc::address_not_available) {
    return fail(ErrorCode::kIo, start + "this machine has no such address; choose another with --host", "host");
  }
  return fail(ErrorCode::kIo, start + cause.message(), "host");
}

Result<tcp::acceptor> listen_at(asio::io_context& io, const tcp::endpoint& endpoint, error_code& cause) {
  tcp::acceptor acceptor(asio::make_strand(io));
  acceptor.open(endpoint.protocol(), cause);
  if (!cause) acceptor.set_option(asio::socket_base::reuse_address(true), cause);
  // "::" means every address of the machine; any other IPv6 address means itself.
  if (!cause && endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), cause);
  }
  if (!cause) acceptor.bind(endpoint, cause);
  if (!cause) acceptor.listen(asio::socket_base::max_listen_connections, cause);
  if (cause) return cannot_listen(endpoint.address().to_string(), endpoint.port(), cause);
  return acceptor;
}

}  // namespace

Result<std::vector<tcp::acceptor>> listen_on(asio::io_context& io, const std::string& host, std::uint16_t port) {
  error_code cause;
  tcp::resolver resolver(io);
  const auto addresses = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, cause);
  if (cause || addresses.empty()) {
    return fail(ErrorCode::kIo, "cannot listen on " + place(host, port) + ": the host name has no address", "host");
  }
  std::vector<tcp::acceptor> acceptors;
  std::unexpected<Error> failure = fail(ErrorCode::kInternal, "");
  for (const auto& entry : addresses) {
    tcp::endpoint endpoint = entry.endpoint();
    // With port 0 the first address chooses and the others follow.
    if (!acceptors.empty()) endpoint.port(acceptors.front().local_endpoint().port());
    auto acceptor = listen_at(io, endpoint, cause);
    if (acceptor) {
      acceptors.push_back(std::move(*acceptor));
      continue;
    }
    failure = std::unexpected(std::move(acceptor).error());
    // A name such as localhost may stand for an address that this machine lacks; a port that is taken is an error.
    if (cause == asio::error::address_in_use || cause == asio::error::access_denied) return failure;
  }
  if (acceptors.empty()) return failure;
  return acceptors;
}

Listener::Listener(asio::io_context& io, tcp::acceptor acceptor, OnAccept on_accept)
    : io_(io), acceptor_(std::move(acceptor)), on_accept_(std::move(on_accept)) {}

void Listener::start() { asio::co_spawn(acceptor_.get_executor(), accept_loop(), asio::detached); }

void Listener::stop() {
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
}

Task<void> Listener::accept_loop() {
  while (acceptor_.is_open()) {
    error_code cause;
    const asio::any_io_executor strand = asio::make_strand(io_);
    tcp::socket socket = co_await acceptor_.async_accept(strand, asio::redirect_error(asio::use_awaitable, cause));
    if (!cause) {
      on_accept_(std::move(socket));
    } else if (acceptor_.is_open() && cause != asio::error::connection_aborted) {
      log_warn("cannot accept a connection", {{"reason", cause.message()}});
      co_await sleep_for(kAcceptPause);
    }
  }
}

}  // namespace redpoll::http
