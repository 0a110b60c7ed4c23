// ServerTest: a real server on a free loopback port with a few routes that show what a handler was given.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "http/async.h"
#include "http/server.h"
#include "http/signal.h"
#include "unit/http/test_client.h"

namespace redpoll::http {

using std::chrono::milliseconds;

// A count that tests wait for.
class Counter {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  [[nodiscard]] int value() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  [[nodiscard]] bool reaches(int target, milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return count_ >= target; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// What default_error_response says.
inline std::string message(std::string_view text, std::string_view code) {
  return R"({"error":{"message":")" + std::string(text) + R"(","code":")" + std::string(code) + R"("}})";
}

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options_.port = 0;
    options_.access_log = [this](const AccessRecord& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
      recorded_.notify_all();
    };
    router_.add("GET", "/health", [](Request&, Exchange&) -> Task<Response> {
      Response response;
      response.body = R"({"status": "ok"})";
      co_return response;
    });
    router_.add("POST", "/echo", [](Request& request, Exchange&) -> Task<Response> {
      Response response;
      response.content_type = "text/plain";
      response.body = request.body;
      co_return response;
    });
  }

  // Handlers use what derived fixtures hold, so they must have ended before those are destroyed.
  void TearDown() override { server_.reset(); }

  void start() {
    auto server = Server::start(options_, std::move(router_));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }

  // The access log once it has `count` lines.
  std::vector<AccessRecord> records(std::size_t count) {
    std::unique_lock lock(mutex_);
    recorded_.wait_for(lock, std::chrono::seconds(5), [&] { return records_.size() >= count; });
    return records_;
  }

  [[nodiscard]] bool connections_reach(int count, milliseconds limit) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (server_->num_connections() != count) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  ServerOptions options_;
  Router router_;
  std::mutex mutex_;
  std::condition_variable recorded_;
  std::vector<AccessRecord> records_;
  std::unique_ptr<Server> server_;
};

}  // namespace redpoll::http
