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
/// lock, once for what has come since the last `take`: it must be cheap and must not call back into the engine.
/// `on_room` is set by the engine and called by the consumer's `take` if has_room was denied since the last one.
class EventQueue {
 public:
  explicit EventQueue(std::function<void()> on_ready, std::size_t capacity = 64);

  /// Producer. The engine asks has_room before it schedules; first and last events may exceed the capacity. An event
  /// that finds no memory breaks the queue off. False if on_ready threw: `ring` is to be called until it succeeds.
  bool push(GenerationEvent event) noexcept;
  /// Producer: calls on_ready if it has not been called yet for what there is. False if it threw.
  [[nodiscard]] bool ring() noexcept;
  /// Producer: after the events that are there, the consumer gets an ErrorEvent with these words, which must live for
  /// ever, and nothing more.
  void break_off(const char* why) noexcept;
  [[nodiscard]] bool is_broken_off() const;
  /// Asking for more than the capacity asks for an empty queue.
  [[nodiscard]] bool has_room(std::size_t num_events) const;
  void set_on_room(std::function<void()> on_room);

  /// Consumer: everything there is, in order; empty if nothing.
  [[nodiscard]] std::vector<GenerationEvent> take();

 private:
  mutable std::mutex mutex_;
  std::vector<GenerationEvent> events_;
  std::size_t capacity_;
  mutable bool room_is_awaited_ = false;  // has_room was denied
  bool has_rung_ = false;                 // since the last take
  const char* broken_because_ = nullptr;
  bool error_is_out_ = false;
  std::function<void()> on_ready_;
  std::function<void()> on_room_;
};

}  // namespace redpoll::engine
