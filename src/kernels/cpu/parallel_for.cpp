#include "kernels/cpu/parallel_for.h"

#include <algorithm>
#include <chrono>

#include "base/park.h"

namespace redpoll::kernels::cpu {
namespace {

using SpinClock = std::chrono::steady_clock;

constexpr std::uint32_t kOpen = 1U << 31U;
constexpr std::uint32_t kCallerSleeps = 1U << 30U;
/// How long a helper waits for the next job before it sleeps, and the caller for the last parts of others. As long as
/// it takes to go to sleep and be woken: a thread that is not on a core by then will not be for a time slice, which is
/// a hundred times as long.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr int kPausesPerClockRead = 32;

/// Spins until done() or for kSpin; returns the last done().
template <typename Done>
bool spin_until(const Done& done) {
  const auto give_up_at = SpinClock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      pause();
    }
  } while (SpinClock::now() < give_up_at);
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(int num_threads) : shares_(static_cast<std::size_t>(std::max(1, num_threads))) {
  try {
    for (int i = 1; i < num_threads; ++i) helpers_.emplace_back([this, i] { helper_loop(i); });
  } catch (...) {  // the system gives no more threads: those that run must not outlive the team
    stop();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  announce(static_cast<int>(helpers_.size()));
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(const Job& job) {
  job_ = job;
  std::int64_t begin = 0;
  std::int64_t parts_shared = 0;  // times the threads; rounded up, so that the caller has the most and always the first
  for (Share& share : shares_) {
    parts_shared += job.num_parts();
    share.next.store(begin, std::memory_order_relaxed);
    begin = (parts_shared + num_threads() - 1) / num_threads() * job.grain;
    share.end = std::min(begin, job.count);
  }
  gate_.store(kOpen, std::memory_order_release);
  announce(static_cast<int>(std::min<std::int64_t>(job.num_parts() - 1, num_threads() - 1)));
  work();
  wait_for_helpers();
}

/// A helper counts itself as asleep before it looks at `jobs_` for the last time, and `jobs_` grows before the count is
/// read: one of the two sees the other, since all four are sequentially consistent.
void ThreadTeam::announce(int num_wanted) {
  jobs_.fetch_add(1, std::memory_order_seq_cst);
  if (num_asleep_.load(std::memory_order_seq_cst) > 0) unpark(jobs_, num_wanted);
}

/// A helper inside has at most one part left to finish. One that is not on a core has to get there first, and a caller
/// that spins or yields meanwhile takes the time away from it and from itself.
void ThreadTeam::wait_for_helpers() {
  gate_.fetch_and(~kOpen, std::memory_order_relaxed);
  if (spin_until([this] { return gate_.load(std::memory_order_acquire) == 0; })) return;
  std::uint32_t gate = gate_.fetch_or(kCallerSleeps, std::memory_order_acquire) | kCallerSleeps;
  while (gate != kCallerSleeps) {
    park(gate_, gate);
    gate = gate_.load(std::memory_order_acquire);
  }
}

void ThreadTeam::work() {
  const auto own = static_cast<std::size_t>(this_thread_);
  for (std::size_t i = 0; i < shares_.size(); ++i) take_from(shares_[(own + i) % shares_.size()]);
}

void ThreadTeam::take_from(Share& share) const {
  // Looked at first: many threads can read what is through at the same time, but not write it.
  while (share.next.load(std::memory_order_relaxed) < share.end) {
    const std::int64_t begin = share.next.fetch_add(job_.grain, std::memory_order_relaxed);
    if (begin >= share.end) return;
    job_.body(job_.context, begin, std::min(begin + job_.grain, share.end));
  }
}

bool ThreadTeam::try_enter() {
  std::uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

void ThreadTeam::leave() {
  if (gate_.fetch_sub(1, std::memory_order_release) == (kCallerSleeps | 1U)) unpark(gate_, 1);
}

std::uint32_t ThreadTeam::wait_for_job(std::uint32_t seen) {
  if (!spin_until([&] { return jobs_.load(std::memory_order_acquire) != seen; })) {
    num_asleep_.fetch_add(1, std::memory_order_seq_cst);
    while (jobs_.load(std::memory_order_seq_cst) == seen) park(jobs_, seen);
    num_asleep_.fetch_sub(1, std::memory_order_relaxed);
  }
  return jobs_.load(std::memory_order_acquire);
}

void ThreadTeam::helper_loop(int index) {
  this_thread_ = index;
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_job(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!try_enter()) continue;
    work();
    leave();
  }
}

}  // namespace redpoll::kernels::cpu
