// FakeClock: time that moves only when a test says so.
#pragma once

#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace redpoll::test {

class FakeClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return TimePoint(std::chrono::milliseconds(milliseconds_.load())); }
  void advance(std::chrono::milliseconds by) { milliseconds_ += by.count(); }

 private:
  std::atomic<std::int64_t> milliseconds_ = 1'000'000;
};

}  // namespace redpoll::test
