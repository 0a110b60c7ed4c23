// The inner loops compiled for AVX-512 with its subsets F, BW, VL, DQ and VNNI. Called only where the processor has
// them (see features.h).
#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops.h"

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

#include "kernels/cpu/simd_avx512.inc"
// The loops are written once, on whichever vectors were included above.
#include "kernels/cpu/loops_matmul.inc"

#include "kernels/cpu/loops_elementwise.inc"

#include "kernels/cpu/loops_attention.inc"

#include "kernels/cpu/loops_int8.inc"

#include "kernels/cpu/loops_int8_tile.inc"

constexpr Loops kLoops{.lanes = kLanes,
                       .matmul = matmul,
                       .quantize_row = quantize_row,
                       .matmul_int8 = matmul_int8,
                       .attention = attention,
                       .merge_attention = merge_attention,
                       .finish_attention = finish_attention,
                       .to_halves = to_halves,
                       .rotate = rotate,
                       .rms_norm = rms_norm,
                       .add = add_arrays,
                       .silu_multiply = silu_multiply};

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace redpoll::kernels::cpu::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
