// Kernels: the seam between models and devices. nn/ calls these operations and nothing else; a kernel set implements
// them. `reference` is stock MLX ops: the oracle of every test, and what a device without kernels of its own runs.
// The CPU set is eager, our own loops over host memory; neither nn/ nor models/ notice.
//
// Shapes: "tokens" is the flat number of tokens of a RaggedBatch. Heads of a token stand side by side, so what
// attention reads may be (tokens, heads * head_dim), as a projection gives it, or (tokens, heads, head_dim).
// Activations are float32 on a CPU (stock MLX sums bfloat16 products in bfloat16 there) and the checkpoint's own type
// on a GPU. Arguments are checked by the callers in nn/, once, when a model is built. Everything here runs on the
// engine thread.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernel_options.h"
#include "kernels/matrix.h"
#include "kernels/ragged_batch.h"

namespace redpoll::kernels {

/// K and V of one layer for every block of a pool. The first axis is the block; the rest of the layout belongs to the
/// kernel set that made it. Operations that write replace the arrays, possibly sharing their memory.
struct KvStorage {
  mx::array keys = mx::array(0.0F);
  mx::array values = mx::array(0.0F);
  int group = 0;  // whose block tables its blocks are in: see RaggedBatch::block_table
};

struct KvShape {
  int num_blocks = 0;
  int block_tokens = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
};

/// Rotary embedding of the first `dims` of each head of `head_dim`. Pairs are (i, i + dims/2), or (2i, 2i + 1) if
/// `interleaved`. `inverse_frequencies` (dims/2) holds the angle per position of each pair, in radians. What is rotated
/// is multiplied with `scale` as well.
struct RopeSpec {
  int head_dim = 0;
  int dims = 0;
  bool interleaved = false;
  std::vector<float> inverse_frequencies;
  float scale = 1;
};

/// What a token sees of its row, and how scores become weights.
struct AttentionSpec {
  float scale = 1;    // of the scores
  int window = 0;     // tokens that a token sees, itself the last of them; 0: all before it too
  float softcap = 0;  // c: scores s become c * tanh(s / c); 0: they stay
};

enum class GateActivation {
  kSilu,      // x / (1 + exp(-x))
  kGeluTanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};

/// How a router's logits become experts and their weights.
struct RoutingSpec {
  int top_k = 0;
  /// The weights of the chosen ones sum to 1; else they are shares of the softmax over all experts.
  bool normalized = true;
};

/// Which experts see each token. Of experts with the same logit the first ones are chosen.
struct Routing {
  mx::array experts;  // (tokens, top_k) int32
  mx::array weights;  // (tokens, top_k) float32
};

/// Gated MLPs: down(activation(gate(x)) * up(x)).
struct ExpertMlps {
  std::shared_ptr<const Experts> gate, up, down;
  GateActivation activation = GateActivation::kSilu;
};

struct ResidualNorm {
  mx::array sum;         // x + residual
  mx::array normalized;  // rms_norm(sum)
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // for doctor, /stats and test names

  [[nodiscard]] virtual std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const = 0;
  /// matrix->multiply(x) of each matrix, to the bit: together, because what they have in common need be done once.
  [[nodiscard]] virtual std::vector<mx::array> multiply_all(const mx::array& x,
                                                            std::span<const Matrix* const> matrices) const = 0;
  /// Of matrices that have the same shape and are stored alike.
  [[nodiscard]] virtual std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const = 0;
  /// Zero-filled blocks; memory that is never written need not become resident.
  [[nodiscard]] virtual KvStorage make_kv_storage(const KvShape& shape) const = 0;

  /// x (tokens, dim) * weight (dim) / sqrt(mean(x^2 over dim) + eps). Also for heads: x (tokens, heads, head_dim).
  [[nodiscard]] virtual mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps) const = 0;
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

  /// Rows of x (tokens, dim) by ascending index.
  [[nodiscard]] virtual mx::array take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const = 0;
  /// Copies block `from` onto block `to`.
  virtual void copy_block(KvStorage& storage, int from, int to) const = 0;
};

/// The best kernel set for this machine. On a CPU it also switches MLX's run-time compiler off, which would call g++.
/// Owns its helper threads; one per engine.
[[nodiscard]] std::unique_ptr<Kernels> make_kernels(const KernelOptions& options);

}  // namespace redpoll::kernels
