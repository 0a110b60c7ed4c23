// ThreadPool: the workers for text and media (template, tokenize, decode), and for repacking weights while a model is
// loaded. Not for kernels, which have their own fork/join pool, and never for anything that touches MLX arrays.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace redpoll {

enum class TaskLength {
  kShort,
  kLong,  // more than some 30 ms: a megabyte of text to tokenize
};

/// Runs tasks on a fixed number of threads, short ones in the order they came, and long ones too. Long ones leave a
/// thread to the short ones, unless there is but one, and one of them always runs, so that neither kind waits for ever.
/// `post` is safe from any thread, a worker included. The destructor runs what was posted, then joins. A task must not
/// throw.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void post(std::function<void()> task, TaskLength length = TaskLength::kShort);

 private:
  using Tasks = std::deque<std::function<void()>>;
  void run();
  [[nodiscard]] Tasks* next_queue();  // nullptr: nothing may run now

  const std::size_t max_long_;  // at once
  std::mutex mutex_;            // guards what follows
  std::condition_variable ready_;
  Tasks short_;
  Tasks long_;
  std::size_t num_long_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace redpoll
