// Rates: what the threads of this machine get done at best, measured.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/park.h"
#include "kernels/cpu/parallel_for.h"

namespace redpoll::kernels::cpu {

/// The best rate of `work`, a function that returns how much one thread did, on all threads at once; in 10^9 a second.
/// Each thread has one part, since nobody starts before all have come: how long that takes does not count.
template <typename WorkOfThread>
double best_rate(ThreadTeam& team, const WorkOfThread& work) {
  using Clock = std::chrono::steady_clock;
  const int num_threads = team.num_threads();
  std::vector<double> amounts(static_cast<std::size_t>(num_threads));
  std::vector<Clock::time_point> starts(amounts.size());
  std::vector<Clock::time_point> ends(amounts.size());
  double best = 0;
  // Many time slices, so that some pass has all cores to itself.
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(400);
  while (best == 0 || Clock::now() < until) {
    std::atomic<int> num_missing = num_threads;
    team.parallel_for(num_threads, 1, [&](std::int64_t part, std::int64_t) {
      const auto at = static_cast<std::size_t>(part);
      --num_missing;
      while (num_missing > 0) pause();
      starts[at] = Clock::now();
      amounts[at] = work(static_cast<int>(part));
      ends[at] = Clock::now();
    });
    const std::chrono::duration<double> seconds = std::ranges::max(ends) - std::ranges::min(starts);
    best = std::max(best, std::reduce(amounts.begin(), amounts.end()) / seconds.count() / 1e9);
  }
  return best;
}

/// Far more than the last cache holds: eight times as much, from 256 MiB to 1 GiB, or three times as much if that is
/// more.
[[nodiscard]] std::size_t usual_bytes_to_read();
/// Of fewer bytes too many would come from the last cache: twice what it holds, and 64 MiB.
[[nodiscard]] std::size_t least_bytes_to_read();

/// Bytes read from memory, in 10^9 a second. Takes half a second, and for that time a buffer of `bytes_to_read`, all of
/// which becomes resident. Throws std::bad_alloc.
[[nodiscard]] double measure_read_gb_per_s(ThreadTeam& team, std::size_t bytes_to_read);

}  // namespace redpoll::kernels::cpu
