// The inner loops compiled for AVX2, FMA, F16C and AVX-VNNI. Called only where the processor has them (see features.h).
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
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

namespace redpoll::kernels::cpu::avxvnni {
namespace {

#define REDPOLL_AVX_VNNI
#include "kernels/cpu/loops/simd_avx2.inc"
// The loops know vectors by the names that it gives them.
#include "kernels/cpu/loops/all.inc"

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace redpoll::kernels::cpu::avxvnni

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
