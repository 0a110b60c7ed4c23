// EngineStreams: requests that run side by side on one engine, watched by one thread that counts their tokens.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "engine/engine.h"
#include "engine/event_queue.h"

namespace redpoll::bench {

/// Greedy, without stop ids. For one thread at a time; the engine must outlive it.
class EngineStreams {
 public:
  explicit EngineStreams(engine::Engine& engine) : engine_(engine) {}
  ~EngineStreams();  // as stop
  EngineStreams(const EngineStreams&) = delete;
  EngineStreams& operator=(const EngineStreams&) = delete;

  /// Submits one more request.
  [[nodiscard]] Status start(std::vector<TokenId> prompt, int max_tokens);
  /// Until every stream has this many tokens in all. Fails when one of them ends before.
  [[nodiscard]] Status wait_for(int num_tokens_each);
  /// Tokens that have come, by stream.
  [[nodiscard]] std::vector<int> num_tokens() const;
  /// Cancels what still runs and waits for its end: afterwards the engine is idle.
  void stop();

 private:
  // What the engine rings when something has come.
  struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    bool is_rung = false;
  };
  struct Stream {
    engine::RequestId id = 0;
    std::shared_ptr<engine::EventQueue> events;
    int num_tokens = 0;
    bool ended = false;
    Status status;
  };
  void wait();
  static void take(Stream& stream);

  engine::Engine& engine_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::vector<Stream> streams_;
};

}  // namespace redpoll::bench
