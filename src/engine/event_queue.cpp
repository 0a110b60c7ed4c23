#include "engine/event_queue.h"

#include <algorithm>
#include <utility>

namespace redpoll::engine {

EventQueue::EventQueue(std::function<void()> on_ready, std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), on_ready_(std::move(on_ready)) {}

void EventQueue::push(GenerationEvent event) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = events_.empty();
    events_.push_back(std::move(event));
  }
  if (was_empty && on_ready_) on_ready_();
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
    taken = std::exchange(events_, {});
    if (std::exchange(room_is_awaited_, false)) on_room = on_room_;
  }
  if (on_room) on_room();
  return taken;
}

}  // namespace redpoll::engine
