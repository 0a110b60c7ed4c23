// MemorySpeed: how fast this machine reads its memory, measured by the first who wants to know it.
#pragma once

#include <mutex>
#include <optional>

namespace redpoll::server {

/// Any thread may use it.
class MemorySpeed {
 public:
  /// In 10^9 bytes a second. Measuring takes half a second, all cores and some memory, which would be taken from
  /// requests that run: nothing if it was not measured yet and `is_idle` says no.
  template <typename IsIdle>
  [[nodiscard]] std::optional<double> read_gb_per_s(const IsIdle& is_idle) {
    const std::lock_guard lock(mutex_);
    if (!measured_ && is_idle()) measured_ = measure();
    return measured_;
  }
  [[nodiscard]] static double measure();

 private:
  std::mutex mutex_;
  std::optional<double> measured_;
};

}  // namespace redpoll::server
