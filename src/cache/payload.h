// Payload: the bytes of a file of the disk tier on their way, megabytes of them. Their memory is used again and again:
// to get it from the system, page by page, takes longer than to copy what goes into it.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/aligned_memory.h"

namespace redpoll::cache {

/// Gives memory in huge pages, and leaves elements as they are that nobody gives a value.
template <typename T>
struct UninitializedAllocator {
  using value_type = T;

  UninitializedAllocator() = default;
  template <typename U>
  UninitializedAllocator(const UninitializedAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t n) { return reinterpret_cast<T*>(allocate_aligned(n * sizeof(T)).release()); }
  void deallocate(T* elements, std::size_t n) { FreeAligned{n * sizeof(T)}(reinterpret_cast<std::byte*>(elements)); }
  template <typename U>
  void construct(U* element) {
    ::new (static_cast<void*>(element)) U;
  }
  template <typename U, typename... Args>
  void construct(U* element, Args&&... args) {
    ::new (static_cast<void*>(element)) U(std::forward<Args>(args)...);
  }
  bool operator==(const UninitializedAllocator& /*other*/) const { return true; }
};

/// Bytes that `resize` adds have any value.
using Payload = std::vector<std::byte, UninitializedAllocator<std::byte>>;

/// Bytes that it takes, whatever its size.
[[nodiscard]] inline std::size_t memory_of(const Payload& payload) { return allocated_bytes(payload.capacity()); }

/// Payloads that are done with. For any thread.
class PayloadPool {
 public:
  static constexpr std::size_t kMostSpareBytes = std::size_t{16} << 20U;  // beyond it, memory returns to the system

  /// Of any content. Memory of the smallest spare that is large enough, if it is not more than twice as large.
  [[nodiscard]] Payload take(std::size_t num_bytes);
  void give_back(Payload payload) noexcept;
  /// Returns spares to the system until they take no more than this.
  void keep_at_most(std::size_t num_bytes) noexcept;
  [[nodiscard]] std::size_t spare_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::array<Payload, 8> spare_;
  std::size_t bytes_ = 0;  // of all of these
};

}  // namespace redpoll::cache
