// How keys and values are stored: KvType, the floats of the CPU kernels, or a KvPacking, codes of a few bits.
#pragma once

#include "base/error.h"

namespace redpoll::kernels {

/// `kF16` halves what a step reads of the cache, which at depth is most of what it waits for, and rounds each key and
/// value by at most 1/2048 of itself or 2^-25, whichever is more (below 2^-14 halves are subnormal); beyond 65,504 they
/// saturate.
enum class KvType { kF16, kF32 };

/// Floats that models compute in.
enum class FloatType { kF32, kF16, kBF16 };

/// What a layer's keys and values are computed in, where kernels keep that (Kernels::keeps_types).
struct KvFloats {
  FloatType keys = FloatType::kF32;
  FloatType values = FloatType::kF32;
  bool operator==(const KvFloats&) const = default;
};

/// How scale, bias and codes of a group are found. `kOwn`: scale and bias are halves, the bias the greatest that is not
/// above the group's least element, the scale the least with which the highest code reaches the largest one; codes are
/// the nearest for these. So an element is off by half a scale at most; beyond 65,504 it saturates. `kMlx`: as
/// mlx::core::quantize does, in the type of what is packed. Packed is, as in mlx-lm, what a step leaves behind: the
/// first tokens of a row, whose num_computed is 0, see each other's keys and values as they were before.
enum class KvCodes { kOwn, kMlx };

/// Keys and values as codes: each token's key and each of its values is cut along head_dim into groups, and an element
/// x of a group is stored as the code nearest to (x - bias) / scale, which stands for scale * code + bias. Both are the
/// group's own.
struct KvPacking {
  int bits = 0;        // of a code, 8 or 4; 0: floats, no codes
  int group_size = 0;  // elements: 32, or a multiple that divides head_dim, or all of it; with kMlx 32, 64 or 128
  KvCodes codes = KvCodes::kOwn;

  [[nodiscard]] int highest_code() const { return (1 << bits) - 1; }
  bool operator==(const KvPacking&) const = default;
};

/// What --kv-quant says: nothing is packed, all layers are, to 8 or 4 bits, or those that kv_config.json lists.
enum class KvQuantization { kOff, k8, k4, kConfig };

/// Elements of a group at most.
inline constexpr int kMaxKvGroup = 1024;

/// The largest of 64 and 32 that divides head_dim; where neither does, all of it.
[[nodiscard]] constexpr int usual_kv_group(int head_dim) {
  return head_dim % 64 == 0 ? 64 : head_dim % 32 == 0 ? 32 : head_dim;
}

/// An Error, without the layer's name, unless heads of `head_dim` can be packed so.
[[nodiscard]] Status check_packing(const KvPacking& packing, int head_dim);

}  // namespace redpoll::kernels
