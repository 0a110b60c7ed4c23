// KvType: how the CPU kernels store keys and values.
#pragma once

namespace redpoll::kernels {

/// `kF16` halves what a step reads of the cache, which at depth is most of what it waits for, and rounds each key and
/// value by at most 1/2048 of itself or 2^-25, whichever is more (below 2^-14 halves are subnormal); beyond 65,504 they
/// saturate.
enum class KvType { kF16, kF32 };

}  // namespace redpoll::kernels
