#include "base/aligned_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#define REDPOLL_HAS_MMAP 1
#endif

namespace redpoll {
namespace {

#if defined(REDPOLL_HAS_MMAP)
/// At the border of a huge page: maps one more, and gives back what lies before the border and behind the end.
std::byte* map(std::size_t num_bytes) {
  const std::size_t wanted = round_up(num_bytes, kHugePage);
  void* memory = mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(memory);
  const std::size_t before =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  munmap(begin + before + wanted, kHugePage - before);
#if defined(MADV_HUGEPAGE)
  madvise(begin + before, wanted, MADV_HUGEPAGE);  // advice: a refusal changes nothing
#endif
  return begin + before;
}
#endif

}  // namespace

void FreeAligned::operator()(std::byte* bytes) const {
#if defined(REDPOLL_HAS_MMAP)
  if (num_bytes >= kHugePage) {
    munmap(bytes, round_up(num_bytes, kHugePage));
    return;
  }
#endif
  std::free(bytes);
}

AlignedBytes allocate_aligned(std::size_t num_bytes) {
#if defined(REDPOLL_HAS_MMAP)
  if (num_bytes >= kHugePage) return AlignedBytes(map(num_bytes), FreeAligned{num_bytes});
#endif
  void* memory = std::aligned_alloc(kAlignment, round_up(std::max<std::size_t>(num_bytes, 1), kAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(memory), FreeAligned{num_bytes});
}

}  // namespace redpoll
