// The inner loops as the compiler makes them for its baseline: what every processor runs.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops.h"

#define INLINE [[gnu::always_inline]] inline

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

namespace redpoll::kernels::cpu::portable {
namespace {

#include "kernels/cpu/simd_portable.inc"
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

}  // namespace redpoll::kernels::cpu::portable
