// EventCollector: a consumer of engine events for tests; and Gate, which holds a thread until the test lets it go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/event_queue.h"
#include "engine/request.h"

namespace redpoll::test {

/// What one request has sent so far.
struct Collected {
  std::vector<std::vector<engine::TokenEvent>> tokens;  // per choice
  std::vector<std::optional<engine::FinishEvent>> finishes;
  std::optional<engine::PromptEvent> prompt;
  std::optional<Error> error;
  bool prompt_came_first = true;

  [[nodiscard]] std::vector<TokenId> ids(std::size_t choice = 0) const;
};

/// Takes events as they come. Safe to wait on from the test's thread.
class EventCollector {
 public:
  explicit EventCollector(int num_choices = 1, std::size_t capacity = 64);

  [[nodiscard]] const std::shared_ptr<engine::EventQueue>& queue() const { return queue_; }
  /// Until every choice has finished or the request has failed; false after `limit`. Takes events all the while.
  [[nodiscard]] bool wait_until_done(std::chrono::milliseconds limit = std::chrono::seconds(60));
  /// Until the first choice has this many tokens.
  [[nodiscard]] bool wait_for_tokens(std::size_t num_tokens,
                                     std::chrono::milliseconds limit = std::chrono::seconds(60));
  /// What has been taken; to be read by the thread that waits.
  [[nodiscard]] const Collected& collected() const { return collected_; }
  [[nodiscard]] bool is_done() const;

 private:
  struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    bool is_rung = false;
  };
  [[nodiscard]] bool wait(const std::function<bool()>& condition, std::chrono::milliseconds limit);
  void take();

  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::shared_ptr<engine::EventQueue> queue_;
  Collected collected_;
};

/// Closed until opened; then open for ever.
class Gate {
 public:
  void open();
  void wait();
  /// Somebody waits at the gate.
  [[nodiscard]] bool wait_for_arrival(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int num_arrived_ = 0;
};

}  // namespace redpoll::test
