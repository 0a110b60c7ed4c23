#include "base/aligned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace redpoll {

void FreeAligned::operator()(std::byte* bytes) const { std::free(bytes); }

AlignedBytes allocate_aligned(std::size_t num_bytes) {
  constexpr std::size_t kVector = 64;
  const std::size_t alignment = num_bytes >= kHugePage ? kHugePage : kVector;
  const std::size_t rounded = round_up(std::max<std::size_t>(num_bytes, 1), alignment);
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // advice: a refusal changes nothing
#endif
  return AlignedBytes(static_cast<std::byte*>(memory));
}

}  // namespace redpoll
