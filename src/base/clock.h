// Clock: the time source that the engine and the server are given, so that tests can move time by hand.
#pragma once

#include <chrono>

namespace redpoll {

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Clock() = default;
  /// Monotonic; safe from any thread.
  [[nodiscard]] virtual TimePoint now() const { return std::chrono::steady_clock::now(); }
  /// Wall-clock seconds since 1970, for `created` fields and templates.
  [[nodiscard]] virtual std::chrono::system_clock::time_point wall_now() const {
    return std::chrono::system_clock::now();
  }
};

/// The real clock; lives as long as the program.
[[nodiscard]] inline const Clock& system_clock() {
  static const Clock clock;
  return clock;
}

[[nodiscard]] inline double milliseconds_between(Clock::TimePoint from, Clock::TimePoint to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace redpoll
