// Parking: sleeping until an atomic word changes. Where the system has a futex it is called directly, because
// std::atomic::wait yields a few times before it sleeps: on a busy machine a thread that yields stays in the queue for
// a whole time slice, and one that sleeps is put back on a core as soon as it is woken.
#pragma once

#include <atomic>
#include <cstdint>

namespace redpoll {

/// Sleeps while `word` holds `value`; returns when woken, at once when it holds another, and sometimes for no reason.
/// Orders no memory: load `word` afterwards.
void park(const std::atomic<std::uint32_t>& word, std::uint32_t value);

/// Wakes up to `num_threads` of those that sleep on `word`. A system call: worth avoiding when nobody does.
void unpark(std::atomic<std::uint32_t>& word, int num_threads);

/// Tells the core that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace redpoll
