// Loops: the inner loops of the CPU kernels as a table of functions, one table per variant. Everything here works on
// plain memory: no arrays, no threads. A loop never lets one row's result depend on how many rows come with it: each
// element of a result is one chain of operations in an order fixed by the element's own inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/features.h"
#include "kernels/cpu/loops/packed_weights.h"
#include "kernels/cpu/loops/tiles.h"
#include "kernels/kernel_options.h"

namespace redpoll::kernels::cpu {

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
  /// The codes of a group, a byte each, and what they stand for: see KvPacking. A NaN makes all of it NaN. `codes` has
  /// room for a multiple of 32; what is beyond the group is anything.
  GroupAffine (*pack_group)(const float* x, int size, int highest_code, std::uint8_t* codes);

  /// Turns each pair (x[i], x[i + half]) by the angle whose cosine and sine are cos[i] and sin[i].
  void (*rotate)(const float* x, const float* cos, const float* sin, int half, float* out);
  /// out = x * weight / sqrt(mean(x^2) + eps) over `size` elements.
  void (*rms_norm)(const float* x, const float* weight, float eps, int size, float* out);
  /// out = x - mean(x) over `size` elements.
  void (*center)(const float* x, int size, float* out);
  void (*add)(const float* x, const float* y, std::int64_t size, float* out);
  void (*multiply)(const float* x, const float* y, std::int64_t size, float* out);
  void (*sigmoid_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*silu_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*clamped_silu_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*gelu_multiply)(const float* gate, const float* up, std::int64_t size, float* out);
  void (*scale)(const float* x, float factor, std::int64_t size, float* out);
  /// out = factor * gelu(x)
  void (*gelu)(const float* x, float factor, std::int64_t size, float* out);
  /// out += factor * x
  void (*add_scaled)(const float* x, float factor, std::int64_t size, float* out);
  /// out = cap * tanh(x / cap)
  void (*softcap)(const float* x, float cap, std::int64_t size, float* out);

  void (*convolve)(const ConvolutionTile& tile, float* out);
  void (*gated_delta)(const DeltaTile& tile);
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
