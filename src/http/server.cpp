#include "http/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "http/connection.h"
#include "http/listener.h"

namespace redpoll::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

// How long handlers have to return once told that their client is gone.
constexpr std::chrono::milliseconds kAbortLimit{2000};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Router router);
  ~Impl() { (void)stop(std::chrono::milliseconds(0)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status start();
  Status stop(std::chrono::milliseconds grace);
  std::uint16_t port() const { return port_; }
  int num_connections() const;

 private:
  struct Entry {
    std::shared_ptr<Connection> connection;
    asio::any_io_executor strand;
  };

  void accept(tcp::socket socket);
  void tell_all(void (Connection::*message)());
  // True if no connection is left by then.
  bool wait_for_connections(std::chrono::milliseconds limit);

  std::shared_ptr<const ServerContext> context_;
  std::uint16_t port_ = 0;

  mutable std::mutex mutex_;  // guards the three below
  std::condition_variable all_closed_;
  std::unordered_map<const Connection*, Entry> connections_;
  bool stopping_ = false;

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::thread> threads_;
};

Server::Impl::Impl(ServerOptions options, Router router) : io_(options.io_threads), work_(io_.get_executor()) {
  if (!options.format_error) options.format_error = default_error_response;
  ApiKeys keys(options.security.api_keys);
  context_ = std::make_shared<ServerContext>(ServerContext{std::move(options), std::move(router), std::move(keys)});
}

Status Server::Impl::start() {
  const ServerOptions& options = context_->options;
  ASSIGN_OR_RETURN(auto acceptors, listen_on(io_, options.host, options.port));
  port_ = acceptors.front().local_endpoint().port();
  for (tcp::acceptor& acceptor : acceptors) {
    auto on_accept = [this](tcp::socket socket) { accept(std::move(socket)); };
    listeners_.push_back(std::make_unique<Listener>(io_, std::move(acceptor), std::move(on_accept)));
    listeners_.back()->start();
  }
  for (int i = 0; i < options.io_threads; ++i) threads_.emplace_back([this] { io_.run(); });
  return {};
}

int Server::Impl::num_connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(connections_.size());
}

void Server::Impl::accept(tcp::socket socket) {
  const auto limit = static_cast<std::size_t>(context_->options.max_connections);
  const auto executor = socket.get_executor();
  auto connection = std::make_shared<Connection>(std::move(socket), context_);
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    // Refusals are connections too; beyond twice the limit even they would be too many.
    if (stopping_ || connections_.size() >= 2 * limit) return;
    refused = connections_.size() >= limit;
    connections_.emplace(connection.get(), Entry{connection, executor});
  }
  auto on_end = [this, connection](const std::exception_ptr& exception) {
    if (exception) log_error("a connection ended by an exception");
    const std::lock_guard lock(mutex_);
    connections_.erase(connection.get());
    if (connections_.empty()) all_closed_.notify_all();
  };
  asio::co_spawn(executor, refused ? connection->refuse() : connection->run(), std::move(on_end));
}

void Server::Impl::tell_all(void (Connection::*message)()) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : connections_) {
    asio::post(entry.strand, [connection = entry.connection, message] { ((*connection).*message)(); });
  }
}

bool Server::Impl::wait_for_connections(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return all_closed_.wait_for(lock, limit, [this] { return connections_.empty(); });
}

Status Server::Impl::stop(std::chrono::milliseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return {};
  }
  for (const auto& listener : listeners_) listener->stop();
  tell_all(&Connection::begin_shutdown);
  Status status;
  if (!wait_for_connections(grace)) {
    const int num_cut_off = num_connections();
    tell_all(&Connection::abort);
    wait_for_connections(kAbortLimit);
    status = fail(ErrorCode::kTimeout, "connections cut off after a grace of " + std::to_string(grace.count()) +
                                           " ms: " + std::to_string(num_cut_off));
  }
  work_.reset();
  io_.stop();
  for (auto& thread : threads_) thread.join();
  // Coroutines that did not end keep their connection until io_ destroys them; nothing may keep it longer than io_.
  connections_.clear();
  return status;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Router router) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(router));
  RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::uint16_t Server::port() const { return impl_->port(); }
int Server::num_connections() const { return impl_->num_connections(); }
Status Server::stop(std::chrono::milliseconds grace) { return impl_->stop(grace); }

}  // namespace redpoll::http
