#include "engine/event_queue.h"

#include <algorithm>
#include <utility>

namespace redpoll::engine {

EventQueue::EventQueue(std::function<void()> on_ready, std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), on_ready_(std::move(on_ready)) {}

bool EventQueue::push(GenerationEvent event) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      if (broken_because_ == nullptr) events_.push_back(std::move(event));
    } catch (...) {
      broken_because_ = "the server had no memory left to send what it generated";
    }
  }
  return ring();
}

bool EventQueue::ring() noexcept {
  {
    const std::lock_guard lock(mutex_);
    const bool has_news = !events_.empty() || (broken_because_ != nullptr && !error_is_out_);
    if (has_rung_ || !has_news) return true;
    has_rung_ = true;
  }
  try {
    if (on_ready_) on_ready_();
    return true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    has_rung_ = false;
    return false;
  }
}

void EventQueue::break_off(const char* why) noexcept {
  const std::lock_guard lock(mutex_);
  if (broken_because_ == nullptr) broken_because_ = why;
}

bool EventQueue::is_broken_off() const {
  const std::lock_guard lock(mutex_);
  return broken_because_ != nullptr;
}

bool EventQueue::has_room(std::size_t num_events) const {
  const std::lock_guard lock(mutex_);
  // More than fits at once would never be granted; an empty queue is all the room there can be.
  const bool room = events_.size() + std::min(num_events, capacity_) <= capacity_;
  if (!room) room_is_awaited_ = true;
  return room;
}

void EventQueue::set_on_room(std::function<void()> on_room) {
  const std::lock_guard lock(mutex_);
  on_room_ = std::move(on_room);
}

std::vector<GenerationEvent> EventQueue::take() {
  std::vector<GenerationEvent> taken;
  std::function<void()> on_room;
  {
    const std::lock_guard lock(mutex_);
    if (room_is_awaited_) on_room = on_room_;  // what may fail comes first, so that no event is lost
    if (broken_because_ != nullptr && !error_is_out_) {
      events_.emplace_back(ErrorEvent{.error = {ErrorCode::kUnavailable, broken_because_, {}}});
      error_is_out_ = true;
    }
    taken = std::exchange(events_, {});
    has_rung_ = false;
    room_is_awaited_ = false;
  }
  if (on_room) on_room();
  return taken;
}

}  // namespace redpoll::engine
