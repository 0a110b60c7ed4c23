#include "cache/payload.h"

#include <algorithm>

namespace redpoll::cache {

Payload PayloadPool::take(std::size_t num_bytes) {
  Payload payload;
  {
    const std::lock_guard lock(mutex_);
    Payload* best = nullptr;
    for (Payload& spare : spare_) {
      const bool fits = spare.capacity() >= num_bytes && spare.capacity() / 2 <= num_bytes;
      if (fits && (best == nullptr || spare.capacity() < best->capacity())) best = &spare;
    }
    if (best != nullptr) {
      bytes_ -= memory_of(*best);
      payload.swap(*best);
    }
  }
  payload.resize(num_bytes);
  return payload;
}

void PayloadPool::give_back(Payload payload) noexcept {
  const std::lock_guard lock(mutex_);
  Payload& place = *std::ranges::min_element(spare_, {}, [](const Payload& spare) { return spare.capacity(); });
  const std::size_t bytes = bytes_ - memory_of(place) + memory_of(payload);
  if (payload.capacity() <= place.capacity() || bytes > kMostSpareBytes) return;
  bytes_ = bytes;
  place.swap(payload);
}

void PayloadPool::keep_at_most(std::size_t num_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (Payload& spare : spare_) {
    if (bytes_ <= num_bytes) return;
    bytes_ -= memory_of(spare);
    Payload().swap(spare);
  }
}

std::size_t PayloadPool::spare_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace redpoll::cache
