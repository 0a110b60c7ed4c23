// MemorySpeed: how fast this machine reads its memory, measured by the first who wants to know it.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>

namespace redpoll::server {

/// Any thread may use it.
class MemorySpeed {
 public:
  /// In 10^9 bytes a second. Measuring takes half a second, all cores and memory, which would be taken from requests
  /// that run: `spare_bytes()` says how much there is now, of which half is taken, since somebody may want some
  /// meanwhile. Nothing is measured, nor remembered, if that is too little.
  template <typename SpareBytes>
  [[nodiscard]] std::optional<double> read_gb_per_s(const SpareBytes& spare_bytes) {
    const std::lock_guard lock(mutex_);
    if (!measured_) measured_ = measure(spare_bytes() / 2);
    return measured_;
  }
  /// In a buffer of at most `spare_bytes`. Nothing where that cannot tell: when it is less than twice the last cache,
  /// when a GPU computes, which has a memory or a way to it of its own, and when there is no memory or thread to be
  /// had.
  [[nodiscard]] static std::optional<double> measure(std::size_t spare_bytes);

 private:
  std::mutex mutex_;
  std::optional<double> measured_;
};

}  // namespace redpoll::server
