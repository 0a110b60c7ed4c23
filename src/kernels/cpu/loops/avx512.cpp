// The inner loops compiled for AVX-512 with its subsets F, BW, VL, DQ and VNNI. Called only where the processor has
// them (see features.h).
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops/loops.h"

#define INLINE [[gnu::always_inline]] inline

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bw,avx512vl,avx512dq,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

namespace redpoll::kernels::cpu::avx512 {
namespace {

#include "kernels/cpu/loops/simd_avx512.inc"
// The loops know vectors by the names that it gives them.
#include "kernels/cpu/loops/all.inc"

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace redpoll::kernels::cpu::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
