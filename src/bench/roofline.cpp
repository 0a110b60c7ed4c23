#include "bench/roofline.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/parallel_for.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 48")
#endif

namespace redpoll::bench {
namespace {

using kernels::cpu::AlignedBytes;
using kernels::cpu::ThreadTeam;
using kernels::cpu::Variant;

constexpr int kPasses = 7;
constexpr std::size_t kMiB = std::size_t{1} << 20U;
/// Long enough that starting and ending does not show, short enough to be done between two time slices.
constexpr int kRounds = 200'000;
/// Independent chains: more than the latency of a multiply-add times those that start in each cycle.
constexpr int kChains = 12;

/// Keeps a value from being optimized away.
template <typename T>
void use(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

/// Each returns the operations that it did.
double portable_float_ops() {
  constexpr int kLanes = 4;
  float sums[kChains * kLanes] = {};
  float factor = 0.999F;
  use(factor);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (float& sum : sums) sum = sum * factor + 1.0F;
  }
  use(std::accumulate(std::begin(sums), std::end(sums), 0.0F));
  return 2.0 * kRounds * kChains * kLanes;
}

double portable_int8_ops() {
  constexpr int kWidth = 64;
  std::int8_t a[kWidth];
  std::int8_t b[kWidth];
  std::memset(a, 3, sizeof a);
  std::memset(b, 5, sizeof b);
  std::int32_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    use(a);  // else one product would do for all
    for (int i = 0; i < kWidth; ++i) sum += std::int32_t{a[i]} * std::int32_t{b[i]};
  }
  use(sum);
  return 2.0 * kRounds * kWidth;
}

#if defined(__x86_64__)

[[gnu::target("avx2,fma")]] double avx2_float_ops() {
  __m256 sums[kChains] = {};
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 one = _mm256_set1_ps(1.0F);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, one);
  }
  __m256 total = _mm256_setzero_ps();
  UNROLL for (const __m256& sum : sums) total = _mm256_add_ps(total, sum);
  float out[8];
  _mm256_storeu_ps(out, total);
  use(out);
  return 2.0 * kRounds * kChains * 8;
}

[[gnu::target("avx2,fma")]] double avx2_int8_ops() {
  __m256i sums[kChains] = {};
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (__m256i& sum : sums) {
      asm volatile("" : "+x"(a));  // else one product would do for all
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  __m256i total = _mm256_setzero_si256();
  UNROLL for (const __m256i& sum : sums) total = _mm256_add_epi32(total, sum);
  std::int32_t out[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), total);
  use(out);
  return 2.0 * kRounds * kChains * 32;
}

[[gnu::target("avx512f,avx512bw,avx512vnni")]] double avx512_float_ops() {
  __m512 sums[kChains] = {};
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 one = _mm512_set1_ps(1.0F);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, one);
  }
  __m512 total = _mm512_setzero_ps();
  UNROLL for (const __m512& sum : sums) total = _mm512_add_ps(total, sum);
  float out[16];
  _mm512_storeu_ps(out, total);
  use(out);
  return 2.0 * kRounds * kChains * 16;
}

[[gnu::target("avx512f,avx512bw,avx512vnni")]] double avx512_int8_ops() {
  __m512i sums[kChains] = {};
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(5);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  __m512i total = _mm512_setzero_si512();
  UNROLL for (const __m512i& sum : sums) total = _mm512_add_epi32(total, sum);
  std::int32_t out[16];
  _mm512_storeu_si512(out, total);
  use(out);
  return 2.0 * kRounds * kChains * 64;
}

#endif

/// The best rate of `work`, a function that returns how much one thread did, on all threads at once; in 10^9 a second.
template <typename WorkOfThread>
double best_rate(ThreadTeam& team, const WorkOfThread& work) {
  double best_seconds = std::numeric_limits<double>::infinity();
  std::vector<double> amounts(static_cast<std::size_t>(team.num_threads()));
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto started_at = std::chrono::steady_clock::now();
    team.parallel_for(team.num_threads(), 1, [&](std::int64_t part, std::int64_t) {
      amounts[static_cast<std::size_t>(part)] = work(static_cast<int>(part));
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_at;
    best_seconds = std::min(best_seconds, seconds.count());
  }
  double total = 0;
  for (const double amount : amounts) total += amount;
  return total / best_seconds / 1e9;
}

/// Bytes that are far more than the last cache holds, and a share of which is worth a measurement.
std::size_t bytes_to_read() {
  long cache_bytes = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return std::clamp(8 * static_cast<std::size_t>(std::max(cache_bytes, 0L)), 256 * kMiB, 1024 * kMiB);
}

/// Eight sums, so that loads do not wait for additions.
double read_all(const std::uint64_t* words, std::size_t num_words) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= num_words; i += 8) {
    UNROLL for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  use(std::accumulate(std::begin(sums), std::end(sums), std::uint64_t{0}));
  return static_cast<double>(num_words * sizeof(std::uint64_t));
}

double measure_reading(ThreadTeam& team) {
  const std::size_t words_each = bytes_to_read() / sizeof(std::uint64_t) / static_cast<std::size_t>(team.num_threads());
  const std::size_t num_bytes = words_each * sizeof(std::uint64_t) * static_cast<std::size_t>(team.num_threads());
  const AlignedBytes buffer = kernels::cpu::allocate_aligned(num_bytes);
  std::memset(buffer.get(), 1, num_bytes);  // pages that were never written are all the same one
  const auto* words = reinterpret_cast<const std::uint64_t*>(buffer.get());
  return best_rate(
      team, [&](int thread) { return read_all(words + static_cast<std::size_t>(thread) * words_each, words_each); });
}

struct Peaks {
  double (*float_ops)();
  double (*int8_ops)();
};

Peaks peaks_of(Variant variant) {
#if defined(__x86_64__)
  if (variant == Variant::kAvx512) return {avx512_float_ops, avx512_int8_ops};
  if (variant == Variant::kAvx2) return {avx2_float_ops, avx2_int8_ops};
#endif
  return {portable_float_ops, portable_int8_ops};
}

}  // namespace

Roofline measure_roofline(Variant variant, int num_threads) {
  ThreadTeam team(num_threads);
  const Peaks peaks = peaks_of(variant);
  return {.read_gb_per_s = measure_reading(team),
          .float_gop_per_s = best_rate(team, [&](int) { return peaks.float_ops(); }),
          .int8_gop_per_s = best_rate(team, [&](int) { return peaks.int8_ops(); })};
}

}  // namespace redpoll::bench
