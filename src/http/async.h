// run_on: from a coroutine on an I/O thread to a worker thread and back.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/thread_pool.h"
#include "http/task.h"

namespace redpoll::http {

namespace internal {
/// Runs `work`, which must not throw, on `pool` and resumes the caller on its own executor.
[[nodiscard]] Task<void> run_void_on(ThreadPool& pool, std::function<void()> work, TaskLength length);

template <typename T>
struct WorkResult {
  std::optional<T> value;
  std::exception_ptr exception;
};

template <typename T>
[[nodiscard]] Task<T> run_and_take(ThreadPool& pool, std::function<void()> work, TaskLength length,
                                   std::shared_ptr<WorkResult<T>> result) {
  co_await run_void_on(pool, std::move(work), length);
  if (result->exception) std::rethrow_exception(result->exception);
  co_return std::move(*result->value);
}
}  // namespace internal

/// Runs `work` on a worker and gives back what it returns (a value, not void) on the I/O thread; what it throws is
/// rethrown there. `work` should own what it uses: when a server is destroyed without having been stopped, the waiting
/// coroutine goes while the work still runs. `pool` must not be destroyed before the server has stopped.
///
/// gcc 12 destroys a lambda twice that is written inside a co_await expression and owns something. So give the lambda a
/// name and pass std::move(name); one that captures nothing but references and numbers is safe where it stands.
template <typename F>
[[nodiscard]] auto run_on(ThreadPool& pool, F&& work, TaskLength length = TaskLength::kShort)
    -> Task<std::invoke_result_t<std::decay_t<F>&>> {
  using T = std::invoke_result_t<std::decay_t<F>&>;
  static_assert(!std::is_void_v<T>, "return a Status where there is no value");
  auto result = std::make_shared<internal::WorkResult<T>>();
  // std::function wants a copyable callable, which `work` need not be.
  auto shared_work = std::make_shared<std::decay_t<F>>(std::forward<F>(work));
  std::function<void()> task = [result, shared_work] {
    try {
      result->value.emplace((*shared_work)());
    } catch (...) {
      result->exception = std::current_exception();
    }
  };
  shared_work.reset();
  return internal::run_and_take<T>(pool, std::move(task), length, std::move(result));
}

}  // namespace redpoll::http
