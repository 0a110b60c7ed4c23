// Loops: the inner loops of the CPU kernels as a table of functions, one table per variant. Everything here works on
// plain memory: no arrays, no threads. A loop never lets one row's result depend on how many rows come with it: each
// element of a result is one chain of operations in an order fixed by the element's own inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/features.h"
#include "kernels/cpu/loops/packed_weights.h"
#include "kernels/kernel_options.h"

namespace redpoll::kernels::cpu {

/// The bits of an IEEE half-precision number.
using Half = std::uint16_t;

/// Key and value rows are padded to a multiple of the widest vector's lanes.
inline constexpr int kPadding = 16;

/// x: placed rows, tile after tile; out (rows, out_stride) of which `num_columns` columns are written.
struct MatmulTile {
  const float* x = nullptr;
  float* out = nullptr;
  int num_rows = 0;  // at most kMaxRows
  int out_stride = 0;
  int num_columns = 0;  // at most kUnitPanels * lanes
};

/// Some query tokens of one sequence against one kv head. Query rows are token-major: row t * group + h is head h of
/// the group at token t; (rows, head_dim), already scaled.
struct AttentionTile {
  const float* queries = nullptr;
  int num_tokens = 0;
  int first_position = 0;  // of the first token; the others follow it
  int group = 0;           // query heads that share the kv head
  int head_dim = 0;
  int window = 0;     // of AttentionSpec
  float softcap = 0;  // of AttentionSpec

  KvType kv_type = KvType::kF32;
  const std::byte* keys = nullptr;    // of this kv head in block 0: (head_dim, key_stride)
  const std::byte* values = nullptr;  // of this kv head in block 0: (block_tokens, value_stride)
  std::ptrdiff_t key_block_stride = 0;
  std::ptrdiff_t value_block_stride = 0;
  const std::int32_t* block_table = nullptr;
  int block_tokens = 0;
  int key_stride = 0;    // block_tokens padded to kPadding
  int value_stride = 0;  // head_dim padded to kPadding

  float* scores = nullptr;    // scratch (rows, score_stride)
  int score_stride = 0;       // tokens of a part, and kPadding for what a vector writes beyond them
  float* unpacked = nullptr;  // scratch for the keys or values of one block
};

/// The softmax of one query row so far: value_stride weighted sums of values, then the largest score, then the sum of
/// weights, padded to attention_state_stride floats.
[[nodiscard]] constexpr int attention_state_stride(int value_stride) { return value_stride + kPadding; }

/// The matmul of one kind of activations.
struct MatmulLoops {
  /// Floats that a row takes as `matmul` reads it.
  std::size_t (*row_floats)(const PackedWeights& weights);
  /// Into how many tiles `matmul` wants a block of up to kMaxRows rows cut.
  int (*num_tiles)(const PackedWeights& weights, int num_rows);
  /// One tile of rows of x (num_rows, in_features) as `matmul` reads it: rounded, if that is what these activations
  /// are.
  void (*place_rows)(const PackedWeights& weights, const float* x, int num_rows, float* out);
  /// out = x * W^T for output rows [kUnitPanels * lanes * unit, + num_columns).
  void (*matmul)(const PackedWeights& weights, int unit, const MatmulTile& tile);
};

/// How tiles are cut, for one variant and one kind of activations.
struct TileShape {
  int most_sums;    // vectors of sums that fit in the registers beside weights, the mask that unpacks them and a row's
                    // word
  int stream_rows;  // most rows of a tile that streams
  int few_rows;     // up to so many rows stream: from there on, taking weights apart for all of them pays
};

struct Loops {
  int lanes;  // of a vector, and so output rows of a weight panel

  MatmulLoops float32;
  MatmulLoops int16;  // the bits of its results are the same in every variant
  MatmulLoops int8;   // so are these

  /// The states (rows, attention_state_stride) of blocks [first_block, last_block) of the table alone. Reads none of
  /// those that the first token's window has left behind.
  void (*attention)(const AttentionTile& tile, int first_block, int last_block, float* states);
  /// Adds a later part of the context to `states`.
  void (*merge_attention)(float* states, const float* later, int num_rows, int value_stride);
  /// One row of output (head_dim) from its state.
  void (*finish_attention)(const float* state, int value_stride, int head_dim, float* out);
  /// Rounds to the nearest half, ties to even; what is beyond the largest one becomes that, NaN stays NaN.
  void (*to_halves)(const float* x, std::int64_t size, Half* out);

  /// Turns each pair (x[i], x[i + half]) by the angle whose cosine and sine are cos[i] and sin[i].
  void (*rotate)(const float* x, const float* cos, const float* sin, int half, float* out);
  /// out = x * weight / sqrt(mean(x^2) + eps) over `size` elements.
  void (*rms_norm)(const float* x, const float* weight, float eps, int size, float* out);
  void (*add)(const float* x, const float* y, std::int64_t size, float* out);
  void (*silu_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*gelu_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*scale)(const float* x, float factor, std::int64_t size, float* out);
  /// out += factor * x
  void (*add_scaled)(const float* x, float factor, std::int64_t size, float* out);
  /// out = cap * tanh(x / cap)
  void (*softcap)(const float* x, float cap, std::int64_t size, float* out);
};

/// `variant` must be one of available_variants().
[[nodiscard]] const Loops& loops_of(Variant variant);

namespace portable {
[[nodiscard]] const Loops& loops();
}
#if defined(__x86_64__)
namespace avx2 {
[[nodiscard]] const Loops& loops();
}
namespace avxvnni {
[[nodiscard]] const Loops& loops();
}
namespace avx512 {
[[nodiscard]] const Loops& loops();
}
#endif

}  // namespace redpoll::kernels::cpu
