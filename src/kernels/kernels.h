// Kernels: the seam between models and devices. nn/ calls these operations and nothing else; a kernel set implements
// them. `reference` is stock MLX ops: the oracle of every test, and what a device without kernels of its own runs.
// The CPU set is eager, our own loops over host memory; neither nn/ nor models/ notice.
//
// Shapes: "tokens" is the flat number of tokens of a RaggedBatch. Heads of a token stand side by side, so what
// attention reads may be (tokens, heads * head_dim), as a projection gives it, or (tokens, heads, head_dim).
// Activations are float32 on a CPU (stock MLX sums bfloat16 products in bfloat16 there) and the checkpoint's own type
// on a GPU and in the exact tier (see ReferenceKernels). Arguments are checked by the callers in nn/, once, when a
// model is built. Everything here runs on the engine thread.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernel_options.h"
#include "kernels/matrix.h"
#include "kernels/operations.h"
#include "kernels/ragged_batch.h"

namespace redpoll::kernels {

class Kernels {
 public:
  virtual ~Kernels() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // for doctor, /stats and test names

  /// Whether it computes in the checkpoint's types; else in float32.
  [[nodiscard]] virtual bool keeps_types() const { return false; }
  /// Whether it takes weights of small floats; else they must be widened: see WeightFormat.
  [[nodiscard]] virtual bool takes_small_floats() const { return false; }

  [[nodiscard]] virtual std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const = 0;
  /// What the matrix takes, each expert's too: as stored, unless a kernel set lays it out in another way.
  [[nodiscard]] virtual std::size_t matrix_bytes(const MatrixWeights& weights) const;
  /// matrix->multiply(x) of each matrix, to the bit: together, because what they have in common need be done once.
  [[nodiscard]] virtual std::vector<mx::array> multiply_all(const mx::array& x,
                                                            std::span<const Matrix* const> matrices) const = 0;
  /// Of each map: by multiply_all and add_bias, unless a kernel set rounds the two together.
  [[nodiscard]] virtual std::vector<mx::array> apply_all(const mx::array& x, std::span<const LinearMap> maps) const;
  /// Of matrices that have the same shape and are stored alike. nullptr if the kernel set cannot multiply such.
  [[nodiscard]] virtual std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const = 0;
  /// Zero-filled blocks; memory that is never written need not become resident.
  [[nodiscard]] virtual KvStorage make_kv_storage(const KvShape& shape) const = 0;

  /// x (tokens, dim) * weight (dim) / sqrt(mean(x^2 over dim) + eps). Also for heads: x (tokens, heads, head_dim).
  [[nodiscard]] virtual mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps) const = 0;
  /// (x - mean) / sqrt(variance + eps) * weight + bias over dim, both (dim).
  [[nodiscard]] virtual mx::array layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias,
                                             float eps) const = 0;
  /// The residual sum and its norm in one pass over memory.
  [[nodiscard]] virtual ResidualNorm add_rms_norm(const mx::array& x, const mx::array& residual,
                                                  const mx::array& weight, float eps) const = 0;
  /// x + y, both (tokens, dim).
  [[nodiscard]] virtual mx::array add(const mx::array& x, const mx::array& y) const = 0;
  /// x (tokens, dim) + bias (dim).
  [[nodiscard]] virtual mx::array add_bias(const mx::array& x, const mx::array& bias) const = 0;
  /// activation(gate) * up, elementwise, both (tokens, dim).
  [[nodiscard]] virtual mx::array gate_multiply(const mx::array& gate, const mx::array& up,
                                                GateActivation activation) const = 0;
  /// logits (tokens, experts)
  [[nodiscard]] virtual Routing route(const mx::array& logits, const RoutingSpec& spec) const = 0;
  /// The weighted sum of what its experts make of each token: x (tokens, in) -> (tokens, out).
  [[nodiscard]] virtual mx::array run_experts(const mx::array& x, const Routing& routing,
                                              const ExpertMlps& mlps) const = 0;
  /// factor * x, elementwise.
  [[nodiscard]] virtual mx::array scale(const mx::array& x, float factor) const = 0;
  /// x / divisor, elementwise: by scale, unless a kernel set rounds as division does.
  [[nodiscard]] virtual mx::array divide(const mx::array& x, float divisor) const { return scale(x, 1 / divisor); }
  /// Of GateActivation::kGeluTanh, elementwise.
  [[nodiscard]] virtual mx::array gelu_tanh(const mx::array& x) const = 0;
  /// cap * tanh(x / cap), elementwise.
  [[nodiscard]] virtual mx::array softcap(const mx::array& x, float cap) const = 0;

  /// The heads of x rotated by each token's position in batch.positions.
  [[nodiscard]] virtual mx::array rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const = 0;
  /// Stores the kv heads of k and v at each token's place in its row's blocks.
  virtual void write_kv(KvStorage& storage, const mx::array& k, const mx::array& v, const RaggedBatch& batch) const = 0;
  /// Causal attention of the heads of q over each row's own blocks, write_kv done -> same shape. A token
  /// at position p sees positions 0..p of its row, or the last `window` of them. heads is a multiple of kv_heads; head
  /// h reads kv head h / (heads / kv_heads). Blocks that no token of the batch sees are not read.
  [[nodiscard]] virtual mx::array paged_attention(const mx::array& q, const KvStorage& storage,
                                                  const RaggedBatch& batch, const AttentionSpec& spec) const = 0;

  /// x (tokens, dim) -> (tokens) bool: whether all numbers of a row are finite.
  [[nodiscard]] virtual mx::array finite_rows(const mx::array& x) const = 0;
  /// Rows of x (tokens, dim) by ascending index.
  [[nodiscard]] virtual mx::array take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const = 0;
  /// Zero-filled.
  [[nodiscard]] virtual StateStorage make_state_storage(const StateShape& shape) const = 0;
  /// x (tokens, channels) -> (tokens, channels). Replaces each row's inputs in `states`; a row whose num_computed is 0
  /// has had none.
  [[nodiscard]] virtual mx::array short_convolution(const mx::array& x, const ConvolutionSpec& spec,
                                                    StateStorage& states, const RaggedBatch& batch) const = 0;
  /// -> (tokens, value heads * value_dim). Replaces each row's memory in `states`; that of a row whose num_computed is
  /// 0 begins with zeros.
  [[nodiscard]] virtual mx::array gated_delta(const DeltaInputs& inputs, const DeltaSpec& spec, StateStorage& states,
                                              const RaggedBatch& batch) const = 0;
  /// x (tokens, dim) times sigmoid(logits), of which there is one for each token.
  [[nodiscard]] virtual mx::array gate_rows(const mx::array& x, const mx::array& logits) const = 0;
  /// Columns [first, + count) of x (tokens, dim).
  [[nodiscard]] virtual mx::array take_columns(const mx::array& x, int first, int count) const = 0;

  // Blocks of pools: KvStorage::pools and StateStorage::pools of any layers, whose first axis is the block or state.
  // All of these come after what was written before them, and before what is written later.

  /// Copies block `from` onto block `to` in each pool.
  virtual void copy_block(std::span<mx::array* const> pools, int from, int to) const = 0;
  /// What stands in the blocks, one after the other, of each what stands in the pools, in this order: as many bytes as
  /// `out` has. Waited for.
  virtual void read_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                           std::span<std::byte> out) const = 0;
  /// Puts back what was read, to any blocks, each of which is named once.
  virtual void write_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                            std::span<const std::byte> contents) const = 0;
};

/// The best kernel set for this machine. On a CPU it also switches MLX's run-time compiler off, which would call g++.
/// Owns its helper threads; one per engine.
[[nodiscard]] std::unique_ptr<Kernels> make_kernels(const KernelOptions& options);

}  // namespace redpoll::kernels
