// CpuKernels: the kernel set for a CPU. Eager: each operation reads host memory and returns an array that is already
// available, so that no graph is built. Results of a token depend neither on the other tokens of the batch, nor on how
// its prompt was chunked, nor on the number of threads, to the bit.
//
// Everything is float32, but for what weights of 4 and 8 bits meet, as Activations says, and keys and values, as KvType
// says. Keys are
// stored (block, kv_head, head_dim, token), so that scores of a vector's worth of tokens are one chain of
// multiply-adds, and values (block, kv_head, token, head_dim); the last axis is padded to kPadding with zeros.
#pragma once

#include <memory>

#include "kernels/cpu/context.h"
#include "kernels/kernels.h"

namespace redpoll::kernels::cpu {

/// Cosines and sines of one batch's positions, times the scale, kept because every layer rotates by the same ones.
struct RopeTable {
  std::vector<float> inverse_frequencies;
  float scale = 1;
  std::vector<std::int32_t> positions;
  std::vector<float> cos_sin;  // (tokens, 2, dims / 2)
};

class CpuKernels final : public Kernels {
 public:
  /// `variant` must be one of available_variants().
  CpuKernels(Variant variant, int num_threads, Activations activations = Activations::kFloat32,
             KvType kv_type = KvType::kF16)
      : context_(std::make_shared<Context>(variant, num_threads, activations, kv_type)) {}

  [[nodiscard]] std::string_view name() const override;

  [[nodiscard]] std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const override;
  [[nodiscard]] std::size_t matrix_bytes(const MatrixWeights& weights) const override;
  [[nodiscard]] std::vector<mx::array> multiply_all(const mx::array& x,
                                                    std::span<const Matrix* const> matrices) const override;
  [[nodiscard]] std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const override;
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

 private:
  /// The table for this batch, computed anew when positions or frequencies have changed.
  [[nodiscard]] const RopeTable& rope_table(const RaggedBatch& batch, const RopeSpec& spec) const;

  std::shared_ptr<Context> context_;
  mutable std::vector<RopeTable> rope_tables_;  // one per set of frequencies and scale; engine thread only
};

/// Rows of `dim` elements in a part of about 16,000: what is worth another thread's while.
[[nodiscard]] constexpr std::int64_t rows_per_part(std::int64_t dim) {
  constexpr std::int64_t kElementsPerPart = std::int64_t{16} * 1024;
  return dim >= kElementsPerPart ? 1 : kElementsPerPart / dim;
}

}  // namespace redpoll::kernels::cpu
