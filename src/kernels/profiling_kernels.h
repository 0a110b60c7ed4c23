// ProfilingKernels: a kernel set that measures another: each operation's time, and the work it cannot do without, go
// into a KernelProfile. For eager kernels only, which have done their work when they return.
#pragma once

#include <memory>

#include "kernels/kernels.h"
#include "kernels/profile.h"

namespace redpoll::kernels {

class ProfilingKernels final : public Kernels {
 public:
  ProfilingKernels(std::unique_ptr<Kernels> measured, std::shared_ptr<KernelProfile> profile, Activations activations)
      : measured_(std::move(measured)), profile_(std::move(profile)), activations_(activations) {}

  [[nodiscard]] std::string_view name() const override { return measured_->name(); }

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
  std::unique_ptr<Kernels> measured_;
  std::shared_ptr<KernelProfile> profile_;
  Activations activations_;  // of measured_
};

/// The work of attention: keys and values of each row's context once, queries and results; per query token and head
/// two multiply-adds for each of the head_dim elements of a token that it sees.
[[nodiscard]] Work attention_work(const mx::Shape& q, const KvStorage& storage, const RaggedBatch& batch,
                                  int window = 0);

}  // namespace redpoll::kernels
