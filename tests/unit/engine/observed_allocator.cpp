#include "unit/engine/observed_allocator.h"

#if defined(__APPLE__)
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#else
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace redpoll::test {
namespace {

thread_local Allocations of_thread;
std::atomic<std::int64_t> live = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  Allocations& mine = of_thread;
  if (mine.until_failure > 0) {
    --mine.until_failure;
    if (mine.until_failure == 0) throw std::bad_alloc();
  }
  ++mine.count;
  mine.largest = std::max(mine.largest, size);
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(std::max<std::size_t>(size, 1))
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  live += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void* allocate_or_null(std::size_t size) noexcept {
  try {
    return allocate(size, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void* memory) noexcept {
  live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

Allocations& allocations() { return of_thread; }
std::int64_t live_bytes() { return live; }

}  // namespace redpoll::test

// Not inlined: a compiler that sees malloc meet delete warns. Sanitizers still see malloc and free, but not whether
// delete[] meets new[]; the other test programs are for that.
#define REPLACED [[gnu::noinline]]
REPLACED void* operator new(std::size_t size) { return redpoll::test::allocate(size, 1); }
REPLACED void* operator new[](std::size_t size) { return redpoll::test::allocate(size, 1); }
REPLACED void* operator new(std::size_t size, std::align_val_t alignment) {
  return redpoll::test::allocate(size, static_cast<std::size_t>(alignment));
}
REPLACED void* operator new[](std::size_t size, std::align_val_t alignment) {
  return redpoll::test::allocate(size, static_cast<std::size_t>(alignment));
}
// The library's own nothrow forms call those above, a sanitizer's do not: memory of theirs would be freed by ours.
REPLACED void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return redpoll::test::allocate_or_null(size);
}
REPLACED void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return redpoll::test::allocate_or_null(size);
}
REPLACED void operator delete(void* memory) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete[](void* memory) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete(void* memory, std::size_t) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete[](void* memory, std::size_t) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete(void* memory, std::align_val_t) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete[](void* memory, std::align_val_t) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { redpoll::test::release(memory); }
REPLACED void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  redpoll::test::release(memory);
}
