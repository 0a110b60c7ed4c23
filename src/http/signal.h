// Signal: the one-way wake-up from any thread into a coroutine.
#pragma once

#include <chrono>
#include <memory>

#include "http/task.h"

namespace redpoll::http {

/// A flag that a coroutine can wait for. Copies share the flag, so a producer keeps a copy and may notify long after
/// the waiting coroutine has ended. A notification is never lost: one that comes while nobody waits is found by the
/// next wait, and several between two waits count as one.
class Signal {
 public:
  Signal();

  /// From any thread; cheap, never blocks, never runs the waiter's code on the calling thread.
  void notify() const;

  /// True as soon as notified (the flag is then down again), false after `timeout`. One waiter at a time.
  [[nodiscard]] Task<bool> wait(std::chrono::milliseconds timeout) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Pauses the calling coroutine; the I/O thread goes on with others.
[[nodiscard]] Task<void> sleep_for(std::chrono::milliseconds duration);

}  // namespace redpoll::http
