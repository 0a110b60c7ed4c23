// ThreadPool: the workers for text and media (template, tokenize, decode). Not for kernels, which have their own
// fork/join pool, and never for anything that touches MLX arrays.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace redpoll {

/// Runs tasks on a fixed number of threads in the order they came. `post` is safe from any thread, a worker included.
/// The destructor runs what was posted, then joins. A task must not throw.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace redpoll
