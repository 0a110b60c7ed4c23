#include "http/signal.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace redpoll::http {

namespace asio = boost::asio;

using TimerPointer = std::shared_ptr<asio::steady_timer>;

// The timer exists only while somebody waits: a state kept by a producer never refers to the I/O threads, which may be
// gone by then.
struct Signal::State {
  std::mutex mutex;
  bool notified = false;
  TimerPointer waiter;
};

namespace {

// Also when the coroutine is destroyed while it waits.
struct ClearWaiter {
  std::mutex& mutex;
  TimerPointer& waiter;
  ~ClearWaiter() {
    const std::lock_guard lock(mutex);
    waiter = nullptr;
  }
};

}  // namespace

Signal::Signal() : state_(std::make_shared<State>()) {}

// All of it under the lock, the end of the executor's copy too: a coroutine that waits is destroyed before the I/O
// threads' context, and ClearWaiter holds it up until a producer is done with both.
void Signal::notify() const {
  const std::lock_guard lock(state_->mutex);
  state_->notified = true;
  if (state_->waiter == nullptr) return;
  const auto executor = state_->waiter->get_executor();
  // A timer may be touched on its own I/O thread only.
  asio::post(executor, [waiter = std::exchange(state_->waiter, nullptr)] { waiter->cancel(); });
}

Task<bool> Signal::wait(std::chrono::milliseconds timeout) const {
  const std::shared_ptr<State> state = state_;
  const auto executor = co_await asio::this_coro::executor;
  const auto timer = std::make_shared<asio::steady_timer>(executor, timeout);
  {
    const std::lock_guard lock(state->mutex);
    if (std::exchange(state->notified, false)) co_return true;
    CHECK(state->waiter == nullptr, "a signal has one waiter at a time");
    state->waiter = timer;
  }
  {
    const ClearWaiter clear{state->mutex, state->waiter};
    boost::system::error_code ignored;
    co_await timer->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  const std::lock_guard lock(state->mutex);
  co_return std::exchange(state->notified, false);
}

Task<void> sleep_for(std::chrono::milliseconds duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace redpoll::http
