#include "base/thread_pool.h"

#include <utility>

#include "base/error.h"

namespace redpoll {

ThreadPool::ThreadPool(int num_threads) : max_long_(static_cast<std::size_t>(num_threads > 1 ? num_threads - 1 : 1)) {
  CHECK(num_threads > 0, "a pool needs a thread");
  threads_.reserve(static_cast<std::size_t>(num_threads));
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::post(std::function<void()> task, TaskLength length) {
  {
    const std::lock_guard lock(mutex_);
    (length == TaskLength::kLong ? long_ : short_).push_back(std::move(task));
  }
  ready_.notify_one();
}

ThreadPool::Tasks* ThreadPool::next_queue() {
  if (!long_.empty() && num_long_running_ == 0) return &long_;
  if (!short_.empty()) return &short_;
  return !long_.empty() && num_long_running_ < max_long_ ? &long_ : nullptr;
}

void ThreadPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Tasks* queue = nullptr;
    ready_.wait(lock, [&] {
      queue = next_queue();
      return queue != nullptr || stopping_;
    });
    // While stopping, what must wait for a running long task is left to the thread that runs it.
    if (queue == nullptr) return;
    const bool is_long = queue == &long_;
    std::function<void()> task = std::move(queue->front());
    queue->pop_front();
    num_long_running_ += is_long ? 1 : 0;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    num_long_running_ -= is_long ? 1 : 0;
  }
}

}  // namespace redpoll
