#include "support/event_collector.h"

#include <algorithm>
#include <utility>

namespace redpoll::test {

std::vector<TokenId> Collected::ids(std::size_t choice) const {
  std::vector<TokenId> ids;
  for (const engine::TokenEvent& event : tokens[choice]) ids.push_back(event.id);
  return ids;
}

EventCollector::EventCollector(int num_choices, std::size_t capacity)
    : queue_(std::make_shared<engine::EventQueue>(
          [bell = bell_] {
            const std::lock_guard lock(bell->mutex);
            bell->is_rung = true;
            bell->rung.notify_all();
          },
          capacity)) {
  collected_.tokens.resize(static_cast<std::size_t>(num_choices));
  collected_.finishes.resize(static_cast<std::size_t>(num_choices));
}

bool EventCollector::wait_until_done(std::chrono::milliseconds limit) {
  return wait([this] { return is_done(); }, limit);
}

bool EventCollector::wait_for_tokens(std::size_t num_tokens, std::chrono::milliseconds limit) {
  return wait([&] { return collected_.tokens.front().size() >= num_tokens; }, limit);
}

bool EventCollector::is_done() const {
  return collected_.error ||
         std::ranges::all_of(collected_.finishes, [](const auto& finish) { return finish.has_value(); });
}

bool EventCollector::wait(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    take();
    if (condition()) return true;
    std::unique_lock lock(bell_->mutex);
    if (!bell_->rung.wait_until(lock, deadline, [this] { return bell_->is_rung; })) return false;
    bell_->is_rung = false;
  }
}

void EventCollector::take() {
  for (engine::GenerationEvent& event : queue_->take()) {
    if (auto* token = std::get_if<engine::TokenEvent>(&event)) {
      collected_.tokens[static_cast<std::size_t>(token->choice)].push_back(std::move(*token));
    } else if (auto* finish = std::get_if<engine::FinishEvent>(&event)) {
      collected_.finishes[static_cast<std::size_t>(finish->choice)] = *finish;
    } else if (auto* prompt = std::get_if<engine::PromptEvent>(&event)) {
      collected_.prompt_came_first =
          std::ranges::all_of(collected_.tokens, [](const auto& tokens) { return tokens.empty(); });
      collected_.prompt = std::move(*prompt);
    } else if (auto* error = std::get_if<engine::ErrorEvent>(&event)) {
      collected_.error = std::move(error->error);
    }
  }
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  changed_.notify_all();
}

void Gate::wait() {
  std::unique_lock lock(mutex_);
  ++num_arrived_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_open_; });
}

bool Gate::wait_for_arrival(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return num_arrived_ > 0; });
}

}  // namespace redpoll::test
