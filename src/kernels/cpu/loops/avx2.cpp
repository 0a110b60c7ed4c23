// The inner loops compiled for AVX2, FMA and F16C. Called only where the processor has them (see features.h).
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
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

namespace redpoll::kernels::cpu::avx2 {
namespace {

#include "kernels/cpu/loops/simd_avx2.inc"
// The loops know vectors by the names that it gives them.
#include "kernels/cpu/loops/all.inc"

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace redpoll::kernels::cpu::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
