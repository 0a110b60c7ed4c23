#include "cache/payload.h"

#include <algorithm>

namespace redpoll::cache {

Payload PayloadPool::take(std::size_t num_bytes) {
  Payload payload;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(spare_, [&](const Payload& spare) { return spare.capacity() >= num_bytes; });
    if (fits != spare_.end()) {
      bytes_ -= fits->capacity();
      payload.swap(*fits);
    }
  }
  payload.resize(num_bytes);
  return payload;
}

void PayloadPool::give_back(Payload payload) noexcept {
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::find_if(spare_, [](const Payload& spare) { return spare.capacity() == 0; });
  if (place == spare_.end() || bytes_ + payload.capacity() > kMostBytes) return;
  bytes_ += payload.capacity();
  place->swap(payload);
}

}  // namespace redpoll::cache
