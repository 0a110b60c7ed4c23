// Memory in large pieces: aligned for vector registers, and in huge pages where the system has them.
#pragma once

#include <cstddef>
#include <memory>

namespace redpoll {

/// Bytes.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20U;
inline constexpr std::size_t kAlignment = 64;

struct FreeAligned {
  std::size_t num_bytes = 0;  // as allocate_aligned was asked for
  void operator()(std::byte* bytes) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;

/// Uninitialized, 64-byte aligned. What is as large as a huge page begins at the border of one, and returns to the
/// system when it is freed: the C library would keep it, and cut it up so that it could never return.
/// Throws std::bad_alloc.
[[nodiscard]] AlignedBytes allocate_aligned(std::size_t num_bytes);

/// `n` to the next multiple.
[[nodiscard]] constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// What allocate_aligned takes for so many bytes.
[[nodiscard]] constexpr std::size_t allocated_bytes(std::size_t num_bytes) {
  return round_up(num_bytes, num_bytes >= kHugePage ? kHugePage : kAlignment);
}

}  // namespace redpoll
