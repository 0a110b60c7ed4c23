// The pieces of work that loops are given: plain memory and sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_options.h"

namespace redpoll::kernels::cpu {

/// The bits of an IEEE half-precision number.
using Half = std::uint16_t;

/// What the codes of a group stand for.
struct GroupAffine {
  Half scale;
  Half bias;
};

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
  KvPacking packing = {};             // not none: keys and values are codes
  const std::byte* keys = nullptr;    // of this kv head in block 0: (head_dim, key_stride)
  const std::byte* values = nullptr;  // of this kv head in block 0: (block_tokens, value_stride)
  std::ptrdiff_t key_block_bytes = 0;
  std::ptrdiff_t value_block_bytes = 0;
  const std::int32_t* block_table = nullptr;
  int block_tokens = 0;
  int key_stride = 0;    // block_tokens padded to kPadding
  int value_stride = 0;  // head_dim padded to kPadding, or to twice that if two codes share a byte

  float* scores = nullptr;    // scratch (rows, score_stride)
  int score_stride = 0;       // tokens of a part, and kPadding for what a vector writes beyond them
  float* unpacked = nullptr;  // scratch for the keys or values of one block

  // Of packed keys and values; a group is one of KvPacking here.
  int num_groups = 0;
  const std::byte* key_affines = nullptr;  // of this kv head in block 0: (num_groups, 2, key_stride), scales and biases
  const std::byte* value_affines = nullptr;
  std::ptrdiff_t affine_block_bytes = 0;
  float* query_sums = nullptr;      // scratch (rows, num_groups)
  float* bias_sums = nullptr;       // scratch (rows, num_groups, kPadding)
  float* scaled_weights = nullptr;  // scratch (rows, key_stride)
  float* affines = nullptr;         // scratch (2, key_stride)
};

/// The softmax of one query row so far: value_stride weighted sums of values, then the largest score, then the sum of
/// weights, padded to attention_state_stride floats.
[[nodiscard]] constexpr int attention_state_stride(int value_stride) { return value_stride + kPadding; }

/// One token of a short convolution: its own inputs and those of the tokens before it, the oldest first, (channels)
/// each; weight (num_inputs, channels).
struct ConvolutionTile {
  const float* const* inputs = nullptr;
  int num_inputs = 0;
  int channels = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;  // (channels), or none
  bool has_silu = false;
};

/// Some columns of the memory of one head and row, for its tokens. Strides are of a token; see DeltaSpec. Whole vectors
/// of the memory are read and written, which padding makes room for.
struct DeltaTile {
  const float* q = nullptr;  // (key_dim) each, at their length
  const float* k = nullptr;
  std::ptrdiff_t key_stride = 0;
  const float* v = nullptr;
  std::ptrdiff_t value_stride = 0;
  const float* decay = nullptr;
  const float* beta = nullptr;
  std::ptrdiff_t head_stride = 0;
  int num_tokens = 0;
  int key_dim = 0;
  int num_columns = 0;
  float* memory = nullptr;  // (key_dim, memory_stride)
  std::ptrdiff_t memory_stride = 0;
  float* out = nullptr;
  std::ptrdiff_t out_stride = 0;
};

}  // namespace redpoll::kernels::cpu
