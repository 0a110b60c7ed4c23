#include "bench/roofline.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/rates.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 48")
#endif

namespace redpoll::bench {
namespace {

using kernels::cpu::best_rate;
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
  return {.read_gb_per_s = kernels::cpu::measure_read_gb_per_s(team, kernels::cpu::usual_bytes_to_read()),
          .float_gop_per_s = best_rate(team, [&](int) { return peaks.float_ops(); }),
          .int16_gop_per_s = best_rate(team, [&](int) { return peaks.int16_ops(); }),
          .int8_gop_per_s = best_rate(team, [&](int) { return peaks.int8_ops(); })};
}

}  // namespace redpoll::bench
