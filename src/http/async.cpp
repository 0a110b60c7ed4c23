#include "http/async.h"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace redpoll::http::internal {

namespace asio = boost::asio;

Task<void> run_void_on(ThreadPool& pool, std::function<void()> work, TaskLength length) {
  auto initiate = [&pool, &work, length](auto handler) {
    // The guard keeps the I/O threads running while the only thing left to do is on a worker.
    auto executor = asio::get_associated_executor(handler);
    auto guard = asio::make_work_guard(executor);
    auto resume = std::make_shared<decltype(handler)>(std::move(handler));
    auto task = [work = std::move(work), executor, guard, resume]() mutable {
      work();
      work = nullptr;  // what the work owned is gone before the coroutine goes on
      asio::post(executor, [resume = std::move(resume)] { std::move (*resume)(); });
    };
    pool.post(std::move(task), length);
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(std::move(initiate), asio::use_awaitable);
}

}  // namespace redpoll::http::internal
