// ReferenceKernels: every operation as stock MLX ops, built lazily on the default device. It is the oracle that faster
// kernel sets are tested against, and what a device without kernels of its own runs. Right before fast: attention
// gathers each row's blocks, and nothing is cached between calls.
//
// Operations follow mlx-lm, op by op. `exact` keeps the checkpoint's types on a CPU too, and small floats as they are:
// then a batch of one row whose prompt came as mlx-lm cuts it, in chunks of kExactPromptChunk with the last token on
// its own, gets mlx-lm's bits, and with keys and values in KvCodes::kMlx those that mlx-optiq gets from mlx-lm's loop.
#pragma once

#include "kernels/fused_operations.h"
#include "kernels/kernels.h"

namespace redpoll::kernels {

class ReferenceKernels : public Kernels {
 public:
  explicit ReferenceKernels(bool exact = false) : is_exact_(exact) {}

  [[nodiscard]] std::string_view name() const override { return is_exact_ ? "exact" : "reference"; }
  [[nodiscard]] bool keeps_types() const override;
  [[nodiscard]] bool takes_small_floats() const override { return is_exact_; }

  [[nodiscard]] std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const override;
  [[nodiscard]] std::size_t matrix_bytes(const MatrixWeights& weights) const override;
  [[nodiscard]] std::vector<mx::array> multiply_all(const mx::array& x,
                                                    std::span<const Matrix* const> matrices) const override;
  [[nodiscard]] std::vector<mx::array> apply_all(const mx::array& x, std::span<const LinearMap> maps) const override;
  /// nullptr if not multiplies_experts.
  [[nodiscard]] std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const override;
  /// (num_blocks, block_tokens, num_kv_heads, head_dim). Takes the type of the first keys that are written, which
  /// KvShape::floats says if it is known.
  [[nodiscard]] KvStorage make_kv_storage(const KvShape& shape) const override;

  [[nodiscard]] mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps) const override;
  [[nodiscard]] mx::array layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias,
                                     float eps) const override;
  [[nodiscard]] ResidualNorm add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& weight,
                                          float eps) const override;
  [[nodiscard]] mx::array add(const mx::array& x, const mx::array& y) const override;
  [[nodiscard]] mx::array add_bias(const mx::array& x, const mx::array& bias) const override;
  [[nodiscard]] mx::array gate_multiply(const mx::array& gate, const mx::array& up,
                                        GateActivation activation) const override;
  [[nodiscard]] Routing route(const mx::array& logits, const RoutingSpec& spec) const override;
  [[nodiscard]] mx::array run_experts(const mx::array& x, const Routing& routing,
                                      const ExpertMlps& mlps) const override;
  [[nodiscard]] mx::array scale(const mx::array& x, float factor) const override;
  [[nodiscard]] mx::array divide(const mx::array& x, float divisor) const override;
  [[nodiscard]] mx::array gelu_tanh(const mx::array& x) const override;
  [[nodiscard]] mx::array softcap(const mx::array& x, float cap) const override;

  [[nodiscard]] mx::array rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const override;
  void write_kv(KvStorage& storage, const mx::array& k, const mx::array& v, const RaggedBatch& batch) const override;
  [[nodiscard]] mx::array paged_attention(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                          const AttentionSpec& spec) const override;

  [[nodiscard]] mx::array finite_rows(const mx::array& x) const override;
  [[nodiscard]] mx::array take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const override;
  [[nodiscard]] mx::array take_columns(const mx::array& x, int first, int count) const override;

  [[nodiscard]] StateStorage make_state_storage(const StateShape& shape) const override;
  [[nodiscard]] mx::array short_convolution(const mx::array& x, const ConvolutionSpec& spec, StateStorage& states,
                                            const RaggedBatch& batch) const override;
  [[nodiscard]] mx::array gated_delta(const DeltaInputs& inputs, const DeltaSpec& spec, StateStorage& states,
                                      const RaggedBatch& batch) const override;
  [[nodiscard]] mx::array gate_rows(const mx::array& x, const mx::array& logits) const override;

  void copy_block(std::span<mx::array* const> pools, int from, int to) const override;
  void read_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                   std::span<std::byte> out) const override;
  void write_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                    std::span<const std::byte> contents) const override;

 protected:
  /// Not dense ones that keep a narrow type on a CPU, where MLX lacks them.
  [[nodiscard]] bool multiplies_experts(const MatrixWeights& like) const;

 private:
  /// Of one row: q (1, heads, queries, head_dim).
  [[nodiscard]] mx::array attend(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                 const BatchRow& row, const AttentionSpec& spec) const;

  bool is_exact_;
  FusedOperations fused_;
};

}  // namespace redpoll::kernels
