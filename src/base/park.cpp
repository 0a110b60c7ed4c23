#include "base/park.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace redpoll {

#if defined(__linux__)

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

void park(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void unpark(std::atomic<std::uint32_t>& word, int num_threads) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, num_threads, nullptr, nullptr, 0);
}

#else

void park(const std::atomic<std::uint32_t>& word, std::uint32_t value) { word.wait(value, std::memory_order_relaxed); }

void unpark(std::atomic<std::uint32_t>& word, int) { word.notify_all(); }

#endif

}  // namespace redpoll
