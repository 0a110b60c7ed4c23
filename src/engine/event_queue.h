// EventQueue: the bounded way from the engine to one consumer. The engine never waits for it: a sequence whose queue
// is full is simply not scheduled until the consumer has taken something.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace redpoll::engine {

/// One producer (the engine thread), one consumer (any thread). `on_ready` is called by the producer, outside the
/// lock, whenever the queue goes from empty to not empty: it must be cheap and must not call back into the engine.
/// `on_room` is set by the engine and called by the consumer's `take` if has_room was denied since the last one.
class EventQueue {
 public:
  explicit EventQueue(std::function<void()> on_ready, std::size_t capacity = 64);

  /// Producer. Never fails: the engine asks has_room before it schedules; terminal events may exceed the capacity.
  void push(GenerationEvent event);
  /// Asking for more than the capacity asks for an empty queue.
  [[nodiscard]] bool has_room(std::size_t num_events = 1) const;
  void set_on_room(std::function<void()> on_room);

  /// Consumer: everything there is, in order; empty if nothing.
  [[nodiscard]] std::vector<GenerationEvent> take();

 private:
  mutable std::mutex mutex_;
  std::vector<GenerationEvent> events_;
  std::size_t capacity_;
  mutable bool room_is_awaited_ = false;  // has_room was denied
  std::function<void()> on_ready_;
  std::function<void()> on_room_;
};

}  // namespace redpoll::engine
