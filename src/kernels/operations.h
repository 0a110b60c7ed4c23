// What the operations of a kernel set are told beside arrays, what some return, and the memory that attention and
// recurrent layers keep from step to step.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/expert_operations.h"
#include "kernels/kv_type.h"
#include "kernels/matrix.h"

namespace redpoll::kernels {

[[nodiscard]] mx::Dtype mlx_type(FloatType type);
[[nodiscard]] mx::Dtype mlx_type(WeightType type);

/// K and V of one layer for every block of a pool. The first axis is the block; the rest of the layout belongs to the
/// kernel set that made it. Operations that write replace the arrays, possibly sharing their memory.
struct KvStorage {
  mx::array keys = mx::array(0.0F);
  mx::array values = mx::array(0.0F);
  int group = 0;  // whose block tables its blocks are in: see RaggedBatch::block_table
  int head_dim = 0;
  KvPacking packing = {};
  mx::array key_affines = mx::array(0.0F);    // scales and biases of packed keys
  mx::array value_affines = mx::array(0.0F);  // and of packed values
  // What write_kv was given last, before it was packed, if KvCodes lets rows of the batch see it: (tokens, kv_heads,
  // head_dim). Not part of any block, and gone at the end of a forward pass.
  std::optional<mx::array> unpacked_keys = {};
  std::optional<mx::array> unpacked_values = {};

  void forget_unpacked() {
    unpacked_keys.reset();
    unpacked_values.reset();
  }
  /// All arrays that it has. The first axis of each is the block; what stands there is all that there is of the block.
  [[nodiscard]] std::vector<mx::array*> pools();
  [[nodiscard]] std::size_t bytes_per_block() const;
  /// nullopt: codes, or what KvFloats has no name for.
  [[nodiscard]] std::optional<KvFloats> floats() const;
};

struct KvShape {
  int num_blocks = 0;
  int block_tokens = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  KvPacking packing = {};  // as check_packing allows it
  /// Without codes, for kernels that keep types; nullopt: not known, and the first keys and values decide.
  std::optional<KvFloats> floats = {};
};

/// States of one recurrent layer for every sequence that has one; the first axis is the state's place. Float32. The
/// layout belongs to the kernel set.
struct StateStorage {
  mx::array convolution = mx::array(0.0F);  // the last inputs of a short convolution
  mx::array memory = mx::array(0.0F);       // of the gated delta rule, if the layer has it

  /// All arrays that it has. The first axis of each is the state.
  [[nodiscard]] std::vector<mx::array*> pools();
};

struct StateShape {
  int num_states = 0;
  int conv_tokens = 0;  // inputs before the current one that a convolution sees
  int conv_channels = 0;
  int num_heads = 0;  // 0: no memory
  int key_dim = 0;    // of a head
  int value_dim = 0;
};

/// Convolution of each channel over the last tokens of its row: y[t] = sum over j of weight[j] * x[t - conv_tokens +
/// j].
struct ConvolutionSpec {
  mx::array weight;               // (conv_tokens + 1, channels)
  std::optional<mx::array> bias;  // (channels)
  bool has_silu = false;          // of the sum
};

/// The gated delta rule (Yang et al., "Gated Delta Networks", 2024): for each value head a memory S (key_dim,
/// value_dim), which each token first fades and then corrects by what it holds wrong of the token's value:
///   S *= exp(-exp(a_log) * softplus(a + dt_bias))
///   S += k (sigmoid(b) * (v - k^T S))^T,   y = q^T S
/// with q and k of norm 1, q / sqrt(key_dim). Value head h has the key head h / (value heads / key heads).
struct DeltaSpec {
  int num_key_heads = 0;
  int num_value_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  mx::array a_log;    // (value heads)
  mx::array dt_bias;  // (value heads)
};

struct DeltaInputs {
  const mx::array& qkv;  // (tokens, 2 * key heads * key_dim + value heads * value_dim)
  const mx::array& a;    // (tokens, value heads)
  const mx::array& b;    // (tokens, value heads)
};

/// Rotary embedding of the first `dims` of each head of `head_dim`. Pairs are (i, i + dims/2), or (2i, 2i + 1) if
/// `interleaved`. `inverse_frequencies` (dims/2) holds the angle per position of each pair, in radians. What is rotated
/// is multiplied with `scale` as well. The same angles as mlx::core::fast::rope takes them, which rounds otherwise:
/// by a base and a scale of positions, or by `periods` (dims/2), which may be infinite.
struct RopeSpec {
  int head_dim = 0;
  int dims = 0;
  bool interleaved = false;
  std::vector<float> inverse_frequencies;
  float scale = 1;
  std::optional<float> base = {};  // none: periods
  float position_scale = 1;
  std::vector<float> periods = {};
};

/// What a token sees of its row, and how scores become weights.
struct AttentionSpec {
  float scale = 1;    // of the scores
  int window = 0;     // tokens that a token sees, itself the last of them; 0: all before it too
  float softcap = 0;  // c: scores s become c * tanh(s / c); 0: they stay
  std::optional<mx::array> sinks =
      {};  // (heads) float32: another score of each head, whose share of the weights is lost
};

/// y = x W^T + b
struct LinearMap {
  const Matrix* weight = nullptr;
  const mx::array* bias = nullptr;  // (out_features); nullptr: none
};

struct ResidualNorm {
  mx::array sum;         // x + residual
  mx::array normalized;  // rms_norm(sum)
};

}  // namespace redpoll::kernels
