// CopyAllowance: bytes that may be copied while others wait: so many a second, saved up to a limit. What is spent
// beyond it is owed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace redpoll::engine {

class CopyAllowance {
 public:
  /// Begins with all that can be saved up.
  CopyAllowance(std::size_t bytes_per_second, std::size_t most)
      : bytes_per_second_(static_cast<double>(bytes_per_second)),
        most_(static_cast<double>(most)),
        bytes_(static_cast<double>(most)) {}

  [[nodiscard]] std::int64_t at(Clock::TimePoint now) {
    if (last_) bytes_ += bytes_per_second_ * std::chrono::duration<double>(now - *last_).count();
    bytes_ = std::min(bytes_, most_);
    last_ = now;
    return static_cast<std::int64_t>(bytes_);
  }
  void spend(std::int64_t bytes) { bytes_ -= static_cast<double>(bytes); }

 private:
  double bytes_per_second_;
  double most_;
  double bytes_;
  std::optional<Clock::TimePoint> last_;  // that `at` was asked
};

}  // namespace redpoll::engine
