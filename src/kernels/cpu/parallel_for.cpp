#include "kernels/cpu/parallel_for.h"

#include <algorithm>
#include <chrono>

namespace redpoll::kernels::cpu {
namespace {

constexpr std::uint32_t kOpen = 1U << 31U;
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr int kPausesPerClockRead = 32;

/// Tells the core that this is a spin loop.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int num_threads) {
  for (int i = 1; i < num_threads; ++i) helpers_.emplace_back([this] { helper_loop(); });
}

ThreadTeam::~ThreadTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(const Job& job) {
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  work();
  gate_.fetch_and(~kOpen, std::memory_order_relaxed);
  // A helper inside has at most one part left to finish. If it was descheduled, spinning would only keep it waiting.
  for (int pauses = 0; gate_.load(std::memory_order_acquire) != 0; ++pauses) {
    if (pauses < 10'000) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadTeam::work() {
  while (true) {
    const std::int64_t begin = next_.fetch_add(job_.grain, std::memory_order_relaxed);
    if (begin >= job_.count) return;
    job_.body(job_.context, begin, std::min(begin + job_.grain, job_.count));
  }
}

bool ThreadTeam::try_enter() {
  std::uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

std::uint32_t ThreadTeam::wait_for_job(std::uint32_t seen) {
  const auto sleep_at = std::chrono::steady_clock::now() + kSpin;
  while (true) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      const std::uint32_t jobs = jobs_.load(std::memory_order_acquire);
      if (jobs != seen) return jobs;
      pause();
    }
    if (std::chrono::steady_clock::now() >= sleep_at) break;
  }
  jobs_.wait(seen, std::memory_order_acquire);
  return jobs_.load(std::memory_order_acquire);
}

void ThreadTeam::helper_loop() {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_job(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!try_enter()) continue;
    work();
    gate_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace redpoll::kernels::cpu
