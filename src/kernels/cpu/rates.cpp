#include "kernels/cpu/rates.h"

#include <unistd.h>

#include <cstring>

#include "base/aligned_memory.h"

namespace redpoll::kernels::cpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// Keeps a value from being optimized away.
template <typename T>
void use(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

/// 0: the system does not say.
std::size_t last_cache_bytes() {
  long cache_bytes = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return static_cast<std::size_t>(std::max(cache_bytes, 0L));
}

using Words2 = std::uint64_t __attribute__((vector_size(16)));

/// Four sums, each on its own, so that loads do not wait for additions.
double read_all(const Words2* words, std::size_t num_words) {
  constexpr std::size_t kAhead = 64;
  Words2 sums[4] = {};
  for (std::size_t i = 0; i + 4 <= num_words; i += 4) {
    __builtin_prefetch(words + i + kAhead);
    sums[0] += words[i];
    sums[1] += words[i + 1];
    sums[2] += words[i + 2];
    sums[3] += words[i + 3];
  }
  const Words2 total = sums[0] + sums[1] + sums[2] + sums[3];
  use(total);
  return static_cast<double>(num_words * sizeof(Words2));
}

}  // namespace

std::size_t usual_bytes_to_read() {
  const std::size_t cache = last_cache_bytes();
  return std::max(std::clamp(8 * cache, 256 * kMiB, 1024 * kMiB), 3 * cache);
}

std::size_t least_bytes_to_read() { return std::max(2 * last_cache_bytes(), 64 * kMiB); }

double measure_read_gb_per_s(ThreadTeam& team, std::size_t bytes_to_read) {
  const std::size_t words_each = bytes_to_read / sizeof(Words2) / static_cast<std::size_t>(team.num_threads());
  const std::size_t num_bytes = words_each * sizeof(Words2) * static_cast<std::size_t>(team.num_threads());
  const AlignedBytes buffer = allocate_aligned(num_bytes);
  std::memset(buffer.get(), 1, num_bytes);  // pages that were never written are all the same one
  const auto* words = reinterpret_cast<const Words2*>(buffer.get());
  return best_rate(
      team, [&](int thread) { return read_all(words + static_cast<std::size_t>(thread) * words_each, words_each); });
}

}  // namespace redpoll::kernels::cpu
