#include "bench/roofline.h"

#include <cstddef>
#include <cstdint>

<<<<<<< HEAD
#include "base/aligned_memory.h"
#include "base/park.h"
=======
>>>>>>> 03d5acd3d71e1b6c6a8cb58d5343ec32074a5a18
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/rates.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 48")
#endif

namespace redpoll::bench {
namespace {

<<<<<<< HEAD
=======
using kernels::cpu::best_rate;
>>>>>>> 03d5acd3d71e1b6c6a8cb58d5343ec32074a5a18
using kernels::cpu::ThreadTeam;
using kernels::cpu::Variant;

/// Of a computing pass, which is done within a time slice.
constexpr int kRounds = 100'000;
/// Independent chains: at least the latency of a multiply-add times those that start in each cycle.
constexpr int kChains = 10;

/// Keeps a value from being optimized away.
template <typename T>
void use(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

// The peaks of a variant return the operations that one thread did. No two chains may become one, and no product may be
// left out: the portable chains start with different values and take a factor that the compiler knows nothing of, the
// others are assembly.

using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));
using Ushort8 = std::uint16_t __attribute__((vector_size(16)));

double portable_float_ops() {
  Float4 sums[kChains];
  UNROLL for (int i = 0; i < kChains; ++i) sums[i] = Float4{} + static_cast<float>(i);
  Float4 factor = Float4{} + 0.5F;
  const Float4 other = Float4{} + 0.25F;
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (Float4& sum : sums) {
      asm volatile("" : "+m"(factor));
      sum += factor * other;
    }
  }
  Float4 total = {};  // the sums themselves stay in registers, having no address
  UNROLL for (const Float4& sum : sums) total += sum;
  use(total);
  return 2.0 * kRounds * kChains * 4;
}

/// As the portable kernels multiply: halves of 32-bit lanes.
double portable_int16_ops() {
  Int4 sums[kChains];
  UNROLL for (int i = 0; i < kChains; ++i) sums[i] = Int4{} + i;
  Int4 factor = Int4{} + 3;
  Int4 other = Int4{} + 5;
  use(other);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (Int4& sum : sums) {
      asm volatile("" : "+m"(factor));
      sum += (factor >> 16) * other;
    }
  }
  Int4 total = {};  // the sums themselves stay in registers, having no address
  UNROLL for (const Int4& sum : sums) total += sum;
  use(total);
  return 2.0 * kRounds * kChains * 4;
}

/// As the portable kernels multiply: bytes in 16-bit lanes.
double portable_int8_ops() {
  Ushort8 sums[kChains];
  UNROLL for (int i = 0; i < kChains; ++i) sums[i] = Ushort8{} + static_cast<std::uint16_t>(i);
  Ushort8 factor = Ushort8{} + static_cast<std::uint16_t>(3);
  Ushort8 other = Ushort8{} + static_cast<std::uint16_t>(5);
  use(other);
  for (int round = 0; round < kRounds; ++round) {
    UNROLL for (Ushort8& sum : sums) {
      asm volatile("" : "+m"(factor));
      sum += factor * other;
    }
  }
  Ushort8 total = {};  // the sums themselves stay in registers, having no address
  UNROLL for (const Ushort8& sum : sums) total += sum;
  use(total);
  return 2.0 * kRounds * kChains * 8;
}

#if defined(__x86_64__)

using Float8 = float __attribute__((vector_size(32)));
using Float16 = float __attribute__((vector_size(64)));
using Short16 = std::int16_t __attribute__((vector_size(32)));
using Short32 = std::int16_t __attribute__((vector_size(64)));
using Byte32 = std::int8_t __attribute__((vector_size(32)));
using Byte64 = std::int8_t __attribute__((vector_size(64)));

// A macro, because what is inlined into a function must not ask for more instructions than it does.
// NOLINTBEGIN(bugprone-macro-parentheses): types and instructions cannot stand in them.
#define VECTOR_PEAK(name, features, Vector, operation)                                                     \
  [[gnu::target(features)]] double name() {                                                                \
    Vector operand = {};                                                                                   \
    operand += 1;                                                                                          \
    Vector product = operand;                                                                              \
    Vector sums[kChains] = {};                                                                             \
    for (int round = 0; round < kRounds; ++round) {                                                        \
      UNROLL for (Vector & sum : sums) asm volatile(operation : "+x"(sum), "=&x"(product) : "x"(operand)); \
    }                                                                                                      \
    UNROLL for (const Vector& sum : sums) asm volatile("" : : "x"(sum), "x"(product));                     \
    constexpr std::size_t kLanes = sizeof(Vector) / sizeof(operand[0]);                                    \
    return 2.0 * kRounds * kChains * kLanes;                                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)
VECTOR_PEAK(avx2_float_ops, "avx2,fma", Float8, "vfmadd213ps %2, %2, %0")
VECTOR_PEAK(avx2_int16_ops, "avx2", Short16, "vpmaddwd %2, %2, %1\n vpaddd %1, %0, %0")
VECTOR_PEAK(avxvnni_int16_ops, "avx2,avxvnni", Short16, "%{vex%} vpdpwssd %2, %2, %0")
VECTOR_PEAK(avx2_int8_ops, "avx2", Byte32, "vpmaddubsw %2, %2, %1\n vpaddw %1, %0, %0")
VECTOR_PEAK(avxvnni_int8_ops, "avx2,avxvnni", Byte32, "%{vex%} vpdpbusd %2, %2, %0")
VECTOR_PEAK(avx512_float_ops, "avx512f", Float16, "vfmadd213ps %2, %2, %0")
VECTOR_PEAK(avx512_int16_ops, "avx512f,avx512bw,avx512vnni", Short32, "vpdpwssd %2, %2, %0")
VECTOR_PEAK(avx512_int8_ops, "avx512f,avx512bw,avx512vnni", Byte64, "vpdpbusd %2, %2, %0")
#undef VECTOR_PEAK

#endif

<<<<<<< HEAD
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
  const Clock::time_point until = Clock::now() + kPassesTake;
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

/// Bytes that are far more than the last cache holds, and a share of which is worth a measurement.
std::size_t bytes_to_read() {
  long cache_bytes = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  const auto cache = static_cast<std::size_t>(std::max(cache_bytes, 0L));
  return std::max(std::clamp(8 * cache, 256 * kMiB, 1024 * kMiB), 3 * cache);
}

using Words2 = std::uint64_t __attribute__((vector_size(16)));

/// Four sums, so that loads do not wait for additions.
double read_all(const Words2* words, std::size_t num_words) {
  constexpr std::size_t kAhead = 64;
  Words2 sums[4] = {};
  for (std::size_t i = 0; i + 4 <= num_words; i += 4) {
    __builtin_prefetch(words + i + kAhead);
    UNROLL for (std::size_t j = 0; j < 4; ++j) sums[j] += words[i + j];
  }
  const Words2 total = sums[0] + sums[1] + sums[2] + sums[3];
  use(total);
  return static_cast<double>(num_words * sizeof(Words2));
}

double measure_reading(ThreadTeam& team) {
  const std::size_t words_each = bytes_to_read() / sizeof(Words2) / static_cast<std::size_t>(team.num_threads());
  const std::size_t num_bytes = words_each * sizeof(Words2) * static_cast<std::size_t>(team.num_threads());
  const AlignedBytes buffer = allocate_aligned(num_bytes);
  std::memset(buffer.get(), 1, num_bytes);  // pages that were never written are all the same one
  const auto* words = reinterpret_cast<const Words2*>(buffer.get());
  return best_rate(
      team, [&](int thread) { return read_all(words + static_cast<std::size_t>(thread) * words_each, words_each); });
}

=======
>>>>>>> 03d5acd3d71e1b6c6a8cb58d5343ec32074a5a18
struct Peaks {
  double (*float_ops)();
  double (*int16_ops)();
  double (*int8_ops)();
};

Peaks peaks_of(Variant variant) {
  switch (variant) {
    case Variant::kPortable: break;
#if defined(__x86_64__)
    case Variant::kAvx2: return {avx2_float_ops, avx2_int16_ops, avx2_int8_ops};
    case Variant::kAvxVnni: return {avx2_float_ops, avxvnni_int16_ops, avxvnni_int8_ops};
    case Variant::kAvx512: return {avx512_float_ops, avx512_int16_ops, avx512_int8_ops};
#else
    case Variant::kAvx2:
    case Variant::kAvxVnni:
    case Variant::kAvx512: break;  // never available here
#endif
  }
  return {portable_float_ops, portable_int16_ops, portable_int8_ops};
}

}  // namespace

Roofline measure_roofline(Variant variant, int num_threads) {
  ThreadTeam team(num_threads);
  const Peaks peaks = peaks_of(variant);
  return {.read_gb_per_s = kernels::cpu::measure_read_gb_per_s(team),
          .float_gop_per_s = best_rate(team, [&](int) { return peaks.float_ops(); }),
          .int16_gop_per_s = best_rate(team, [&](int) { return peaks.int16_ops(); }),
          .int8_gop_per_s = best_rate(team, [&](int) { return peaks.int8_ops(); })};
}

}  // namespace redpoll::bench
