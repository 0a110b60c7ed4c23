#include "bench/machine_peaks.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace redpoll::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of the fastest of several runs of `body(thread)` on all threads at once.
template <typename Body>
double fastest(int threads, int runs, const Body& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    std::vector<double> seconds(static_cast<std::size_t>(threads));
    std::vector<std::thread> others;
    const auto timed = [&](int thread) {
      const auto start = Clock::now();
      body(thread);
      seconds[static_cast<std::size_t>(thread)] = std::chrono::duration<double>(Clock::now() - start).count();
    };
    for (int i = 1; i < threads; ++i) others.emplace_back(timed, i);
    timed(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, *std::ranges::max_element(seconds));
  }
  return best;
}

double read_gigabytes(int threads) {
  constexpr std::size_t kWords = std::size_t{16} << 20U;  // of 8 bytes, for each thread
  std::vector<std::vector<std::uint64_t>> memory(static_cast<std::size_t>(threads));
  for (auto& part : memory) part.assign(kWords, 1);
  const double seconds = fastest(threads, 6, [&](int thread) {
    using Vector = std::uint64_t __attribute__((vector_size(16)));
    const auto* at = reinterpret_cast<const Vector*>(memory[static_cast<std::size_t>(thread)].data());
    Vector sums[4] = {};
    for (std::size_t i = 0; i < kWords / 2; i += 4) {
      __builtin_prefetch(at + i + 64);
      for (std::size_t j = 0; j < 4; ++j) sums[j] += at[i + j];
    }
    asm volatile("" ::"x"(sums[0] + sums[1] + sums[2] + sums[3]));
  });
  return static_cast<double>(threads) * kWords * 8 / seconds / 1e9;
}

#if defined(__x86_64__)

constexpr int kRounds = 50'000;
constexpr int kChains = 10;

// A macro, because what is inlined into a function must not ask for more instructions than it does. In assembly, so
// that the compiler removes nothing.
#define MULTIPLY_ADD_CHAINS(name, features, Vector, start, operation)                               \
  __attribute__((target(features))) void name() {                                                   \
    const Vector operand = start;                                                                   \
    Vector product = operand;                                                                       \
    Vector sums[kChains];                                                                           \
    for (Vector & sum : sums) sum = operand;                                                        \
    for (int i = 0; i < kRounds; ++i) {                                                             \
      for (Vector & sum : sums) asm volatile(operation : "+x"(sum), "=&x"(product) : "x"(operand)); \
    }                                                                                               \
    for (const Vector& sum : sums) asm volatile("" ::"x"(sum), "x"(product));                       \
  }
MULTIPLY_ADD_CHAINS(float_256, "avx2,fma", __m256, _mm256_set1_ps(0.5F), "vfmadd213ps %2, %2, %0")
MULTIPLY_ADD_CHAINS(int8_256, "avx2", __m256i, _mm256_set1_epi8(1), "vpmaddubsw %2, %2, %1\n vpaddw %1, %0, %0")
MULTIPLY_ADD_CHAINS(float_512, "avx512f", __m512, _mm512_set1_ps(0.5F), "vfmadd213ps %2, %2, %0")
MULTIPLY_ADD_CHAINS(int8_512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(1), "vpdpbusd %2, %2, %0")

double multiply_adds(int threads, void (*loop)(), int lanes) {
  const double seconds = fastest(threads, 40, [&](int) { loop(); });
  return double{1} * threads * kRounds * kChains * lanes / seconds / 1e9;
}

#endif

}  // namespace

Peaks measure_peaks(int threads, Vectors vectors) {
  Peaks peaks{.read_gigabytes = read_gigabytes(threads)};
#if defined(__x86_64__)
  if (vectors == Vectors::k512 && __builtin_cpu_supports("avx512vnni")) {
    peaks.float_multiply_adds = multiply_adds(threads, float_512, 16);
    peaks.int8_multiply_adds = multiply_adds(threads, int8_512, 64);
  } else if (vectors == Vectors::k256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    peaks.float_multiply_adds = multiply_adds(threads, float_256, 8);
    peaks.int8_multiply_adds = multiply_adds(threads, int8_256, 32);
  }
#else
  static_cast<void>(vectors);
#endif
  return peaks;
}

}  // namespace redpoll::bench
