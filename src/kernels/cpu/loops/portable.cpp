// The inner loops as the compiler makes them for its baseline: what every processor runs.

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
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

namespace redpoll::kernels::cpu::portable {
namespace {

#include "kernels/cpu/loops/simd_portable.inc"
// The loops know vectors by the names that it gives them.
#include "kernels/cpu/loops/all.inc"

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace redpoll::kernels::cpu::portable
