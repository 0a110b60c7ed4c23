// MemorySpeed: how fast this machine reads its memory, measured by the first who wants to know it.
#pragma once

#include <mutex>
#include <optional>

namespace redpoll::server {

/// Any thread may use it.
class MemorySpeed {
 public:
  /// In 10^9 bytes a second. Measuring takes half a second, all cores and memory, which would be taken from requests
  /// that run: nothing if it was not measured yet and `may_measure` says no, or if it fails.
  template <typename MayMeasure>
  [[nodiscard]] std::optional<double> read_gb_per_s(const MayMeasure& may_measure) {
    const std::lock_guard lock(mutex_);
    if (!measured_ && may_measure()) measured_ = measure();
    return measured_;
  }
  [[nodiscard]] static std::optional<double> measure();
  /// That measuring takes meanwhile.
  [[nodiscard]] static std::size_t bytes();

 private:
  std::mutex mutex_;
  std::optional<double> measured_;
};

}  // namespace redpoll::server
