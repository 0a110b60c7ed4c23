// Signal when the coroutine that waits and its I/O context go away while a producer notifies.
#include "http/signal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <thread>

namespace redpoll::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

Task<void> wait_for_ever(Signal signal, std::atomic<int>& num_waits) {
  while (true) {
    ++num_waits;
    (void)co_await signal.wait(1h);
  }
}

/// The address sanitizer is what sees a producer that uses what is gone; every round has been woken twice before.
TEST(SignalTest, AProducerMayNotifyWhileTheContextIsDestroyed) {
  for (int round = 0; round < 300; ++round) {
    const Signal signal;
    std::atomic<int> num_waits = 0;
    std::atomic<bool> is_over = false;
    auto context = std::make_unique<asio::io_context>();
    asio::co_spawn(asio::make_strand(*context), wait_for_ever(signal, num_waits), asio::detached);
    std::thread producer([&] {
      while (!is_over) signal.notify();
    });
    while (num_waits < 3) context->run_one();
    context.reset();
    is_over = true;
    producer.join();
  }
}

}  // namespace
}  // namespace redpoll::http
