#include "kernels/profiling_kernels.h"

#include <chrono>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace redpoll::kernels {
namespace {

using ProfileClock = std::chrono::steady_clock;

/// Adds the time of its life to a profile.
class Measured {
 public:
  Measured(KernelProfile& profile, const char* operation, std::string shape, const Work& work)
      : profile_(profile), key_(operation, std::move(shape)), work_(work), started_at_(ProfileClock::now()) {}
  ~Measured() { profile_.add(key_, work_, ProfileClock::now() - started_at_); }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  KernelProfile& profile_;
  OperationKey key_;
  Work work_;
  ProfileClock::time_point started_at_;
};

double bytes_of(const mx::array& x) { return static_cast<double>(x.nbytes()); }

/// Of a block of the pools.
double block_bytes(std::span<mx::array* const> pools) {
  double bytes = 0;
  for (const mx::array* pool : pools) bytes += bytes_of(*pool) / pool->shape(0);
  return bytes;
}

double size_of(const mx::array& x) { return static_cast<double>(x.size()); }

/// "576" or "9 x 64": all axes but the tokens.
std::string shape_of(const mx::array& x) {
  std::string text;
  for (int axis = 1; axis < static_cast<int>(x.ndim()); ++axis) {
    text += (text.empty() ? "" : " x ") + std::to_string(x.shape(axis));
  }
  return text;
}

/// "9 x 64": the heads of queries, whether these are flat or not.
std::string heads_shape(const mx::array& q, const KvStorage& storage) {
  const auto head_dim = static_cast<std::size_t>(storage.head_dim);
  const std::size_t heads = q.size() / static_cast<std::size_t>(q.shape(0)) / head_dim;
  return std::to_string(heads) + " x " + std::to_string(head_dim);
}

/// The operations of products with such activations.
double& operations_of(Work& work, Activations activations) {
  switch (activations) {
    case Activations::kInt16: return work.int16_ops;
    case Activations::kInt8: return work.int8_ops;
    case Activations::kFloat32: break;
  }
  return work.float_ops;
}

class ProfiledMatrix final : public Matrix {
 public:
  ProfiledMatrix(std::shared_ptr<const Matrix> measured, std::shared_ptr<KernelProfile> profile, const char* type,
                 Activations activations)
      : Matrix(measured->out_features(), measured->in_features()),
        measured_(std::move(measured)),
        profile_(std::move(profile)),
        shape_(std::to_string(in_features()) + " -> " + std::to_string(out_features()) + ' ' + type),
        activations_(activations) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override {
    const Measured measured(*profile_, "matmul", shape_, work(size_of(x) / in_features()));
    return measured_->multiply(x);
  }

  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override {
    const double row_bytes = static_cast<double>(num_bytes()) / out_features() + in_features() * sizeof(float);
    const Measured measured(*profile_, "gather rows", shape_, {.bytes = size_of(ids) * row_bytes});
    return measured_->gather_rows(ids);
  }

  [[nodiscard]] std::size_t num_bytes() const override { return measured_->num_bytes(); }

  [[nodiscard]] const Matrix& measured() const { return *measured_; }
  [[nodiscard]] const std::string& shape() const { return shape_; }
  [[nodiscard]] Work work(double rows) const {
    Work work{.bytes = static_cast<double>(num_bytes()) + rows * (in_features() + out_features()) * sizeof(float)};
    operations_of(work, activations_) = 2 * rows * in_features() * out_features();
    return work;
  }

 private:
  std::shared_ptr<const Matrix> measured_;
  std::shared_ptr<KernelProfile> profile_;
  std::string shape_;
  Activations activations_;
};

}  // namespace

Work attention_work(const mx::Shape& q, const KvStorage& storage, const RaggedBatch& batch, int window) {
  double context_tokens = 0;  // whose keys and values are read
  double seen_tokens = 0;     // by all query tokens together
  for (const BatchRow& row : batch.rows) {
    const int context = row.num_computed + row.num_tokens;
    context_tokens += window == 0 ? context : std::min(context, window + row.num_tokens - 1);
    // Token i of the row sees num_computed + i + 1, or what the window leaves of them.
    const int whole = window == 0 ? 0 : std::clamp(context - window, 0, row.num_tokens);  // tokens whose window is full
    const int growing = row.num_tokens - whole;
    seen_tokens += growing * (row.num_computed + (growing + 1) / 2.0) + double{1} * whole * window;
  }
  const double bytes_per_token = static_cast<double>(storage.bytes_per_block()) / batch.block_tokens;
  const double heads_dim = std::accumulate(q.begin() + 1, q.end(), 1.0, std::multiplies<>());
  const double query_bytes = static_cast<double>(batch.num_tokens()) * heads_dim * sizeof(float);
  return {.bytes = context_tokens * bytes_per_token + 2 * query_bytes, .float_ops = 4 * seen_tokens * heads_dim};
}

std::shared_ptr<const Matrix> ProfilingKernels::make_matrix(MatrixWeights weights) const {
  static constexpr const char* kQuantized[] = {"", "", "q2", "q3", "q4", "q5", "q6", "", "q8"};
  static constexpr const char* kDense[] = {"f32", "f16", "bf16"};
  const int bits = weights.bits;
  const char* type = bits == 0 ? kDense[static_cast<int>(weights.type)] : kQuantized[bits];
  const Activations met = activations_met(activations_, bits, weights.group_size);
  return std::make_shared<ProfiledMatrix>(measured_->make_matrix(std::move(weights)), profile_, type, met);
}

std::size_t ProfilingKernels::matrix_bytes(const MatrixWeights& weights) const {
  return measured_->matrix_bytes(weights);
}

std::vector<mx::array> ProfilingKernels::multiply_all(const mx::array& x,
                                                      std::span<const Matrix* const> matrices) const {
  std::vector<const Matrix*> inner;
  std::string shape;  // "576 -> 1536 q4, 576 -> 1536 q4"
  Work work;
  for (const Matrix* matrix : matrices) {
    const auto& profiled = static_cast<const ProfiledMatrix&>(*matrix);  // see make_matrix
    inner.push_back(&profiled.measured());
    shape += (shape.empty() ? "" : ", ") + profiled.shape();
    work += profiled.work(size_of(x) / profiled.in_features());
  }
  const Measured measured(*profile_, "matmuls", std::move(shape), work);
  return measured_->multiply_all(x, inner);
}

std::shared_ptr<const Experts> ProfilingKernels::make_experts(std::vector<MatrixWeights> weights) const {
  return measured_->make_experts(std::move(weights));
}

KvStorage ProfilingKernels::make_kv_storage(const KvShape& shape) const { return measured_->make_kv_storage(shape); }

mx::array ProfilingKernels::rms_norm(const mx::array& x, const mx::array& weight, float eps) const {
  const Measured measured(*profile_, "norm", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = 4 * size_of(x)});
  return measured_->rms_norm(x, weight, eps);
}

mx::array ProfilingKernels::layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias,
                                       float eps) const {
  const Measured measured(*profile_, "layer norm", shape_of(x),
                          {.bytes = 2 * bytes_of(x), .float_ops = 8 * size_of(x)});
  return measured_->layer_norm(x, weight, bias, eps);
}

ResidualNorm ProfilingKernels::add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& weight,
                                            float eps) const {
  const Measured measured(*profile_, "add and norm", shape_of(x),
                          {.bytes = 4 * bytes_of(x), .float_ops = 5 * size_of(x)});
  return measured_->add_rms_norm(x, residual, weight, eps);
}

mx::array ProfilingKernels::add(const mx::array& x, const mx::array& y) const {
  const Measured measured(*profile_, "add", shape_of(x), {.bytes = 3 * bytes_of(x), .float_ops = size_of(x)});
  return measured_->add(x, y);
}

mx::array ProfilingKernels::add_bias(const mx::array& x, const mx::array& bias) const {
  const Measured measured(*profile_, "add bias", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = size_of(x)});
  return measured_->add_bias(x, bias);
}

mx::array ProfilingKernels::gate_multiply(const mx::array& gate, const mx::array& up, GateActivation activation) const {
  const auto [name, operations] = [&]() -> std::pair<const char*, int> {
    switch (activation) {
      case GateActivation::kIdentity: return {"multiply", 1};
      case GateActivation::kSigmoid: return {"sigmoid and multiply", 4};
      case GateActivation::kSilu:
      case GateActivation::kPreciseSilu: return {"silu and multiply", 4};
      case GateActivation::kClampedSilu: return {"clamped silu and multiply", 8};
      case GateActivation::kGeluTanh:
      case GateActivation::kFusedGeluTanh: break;
    }
    return {"gelu and multiply", 10};
  }();
  const Measured measured(*profile_, name, shape_of(up),
                          {.bytes = 3 * bytes_of(up), .float_ops = operations * size_of(up)});
  return measured_->gate_multiply(gate, up, activation);
}

Routing ProfilingKernels::route(const mx::array& logits, const RoutingSpec& spec) const {
  const Measured measured(*profile_, "route", shape_of(logits),
                          {.bytes = bytes_of(logits), .float_ops = 5 * size_of(logits)});
  return measured_->route(logits, spec);
}

Work experts_work(const Experts& experts, const Routing& routing, Activations activations) {
  const double rows = size_of(routing.experts);
  const std::set<std::int32_t> used(routing.experts.data<std::int32_t>(),
                                    routing.experts.data<std::int32_t>() + routing.experts.size());
  Work work{.bytes =
                static_cast<double>(experts.num_bytes()) * static_cast<double>(used.size()) / experts.num_experts() +
                rows * (experts.in_features() + experts.out_features()) * sizeof(float)};
  operations_of(work, activations_met(activations, experts.bits(), experts.group_size())) =
      2 * rows * experts.in_features() * experts.out_features();
  return work;
}

mx::array ProfilingKernels::run_experts(const mx::array& x, const Routing& routing, const ExpertMlps& mlps) const {
  Work work;
  for (const Experts* experts : {mlps.gate.get(), mlps.up.get(), mlps.down.get()}) {
    work += experts_work(*experts, routing, activations_);
  }
  const std::string shape = std::to_string(routing.experts.shape(1)) + " of " +
                            std::to_string(mlps.gate->num_experts()) + ": " + std::to_string(mlps.gate->in_features()) +
                            " -> " + std::to_string(mlps.gate->out_features());
  const Measured measured(*profile_, "experts", shape, work);
  return measured_->run_experts(x, routing, mlps);
}

mx::array ProfilingKernels::scale(const mx::array& x, float factor) const {
  const Measured measured(*profile_, "scale", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = size_of(x)});
  return measured_->scale(x, factor);
}

mx::array ProfilingKernels::gelu_tanh(const mx::array& x) const {
  const Measured measured(*profile_, "gelu", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = 9 * size_of(x)});
  return measured_->gelu_tanh(x);
}

mx::array ProfilingKernels::softcap(const mx::array& x, float cap) const {
  const Measured measured(*profile_, "softcap", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = 6 * size_of(x)});
  return measured_->softcap(x, cap);
}

mx::array ProfilingKernels::rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const {
  const Measured measured(*profile_, "rope", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = 3 * size_of(x)});
  return measured_->rope(x, batch, spec);
}

void ProfilingKernels::write_kv(KvStorage& storage, const mx::array& k, const mx::array& v,
                                const RaggedBatch& batch) const {
  const double stored = static_cast<double>(storage.keys.itemsize()) / sizeof(float);
  const Measured measured(*profile_, "write K and V", shape_of(k),
                          {.bytes = (1 + stored) * (bytes_of(k) + bytes_of(v))});
  measured_->write_kv(storage, k, v, batch);
}

mx::array ProfilingKernels::paged_attention(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                            const AttentionSpec& spec) const {
  const Measured measured(*profile_, "attention", heads_shape(q, storage),
                          attention_work(q.shape(), storage, batch, spec.window));
  return measured_->paged_attention(q, storage, batch, spec);
}

mx::array ProfilingKernels::finite_rows(const mx::array& x) const {
  const Measured measured(*profile_, "finite rows", shape_of(x), {.bytes = bytes_of(x), .float_ops = 2 * size_of(x)});
  return measured_->finite_rows(x);
}

mx::array ProfilingKernels::take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const {
  const double row_bytes = bytes_of(x) / x.shape(0);
  const Measured measured(*profile_, "take rows", shape_of(x),
                          {.bytes = 2 * row_bytes * static_cast<double>(rows.size())});
  return measured_->take_rows(x, rows);
}

mx::array ProfilingKernels::take_columns(const mx::array& x, int first, int count) const {
  const Measured measured(*profile_, "take columns", std::to_string(count),
                          {.bytes = 2.0 * x.shape(0) * count * sizeof(float)});
  return measured_->take_columns(x, first, count);
}

StateStorage ProfilingKernels::make_state_storage(const StateShape& shape) const {
  return measured_->make_state_storage(shape);
}

mx::array ProfilingKernels::short_convolution(const mx::array& x, const ConvolutionSpec& spec, StateStorage& states,
                                              const RaggedBatch& batch) const {
  const double row_bytes = bytes_of(states.convolution) / states.convolution.shape(0);
  const Measured measured(*profile_, "convolution", shape_of(x),
                          {.bytes = 2 * bytes_of(x) + 2 * static_cast<double>(batch.rows.size()) * row_bytes,
                           .float_ops = 2.0 * spec.weight.shape(0) * size_of(x)});
  return measured_->short_convolution(x, spec, states, batch);
}

mx::array ProfilingKernels::gated_delta(const DeltaInputs& inputs, const DeltaSpec& spec, StateStorage& states,
                                        const RaggedBatch& batch) const {
  const double row_bytes = bytes_of(states.memory) / states.memory.shape(0);
  const double memory_size = double{1} * spec.num_value_heads * spec.key_dim * spec.value_dim;
  const Measured measured(*profile_, "gated delta",
                          std::to_string(spec.num_value_heads) + " x " + std::to_string(spec.key_dim) + " x " +
                              std::to_string(spec.value_dim),
                          {.bytes = bytes_of(inputs.qkv) + 2 * static_cast<double>(batch.rows.size()) * row_bytes,
                           .float_ops = 7 * memory_size * batch.num_tokens()});
  return measured_->gated_delta(inputs, spec, states, batch);
}

mx::array ProfilingKernels::gate_rows(const mx::array& x, const mx::array& logits) const {
  const Measured measured(*profile_, "gate rows", shape_of(x), {.bytes = 2 * bytes_of(x), .float_ops = size_of(x)});
  return measured_->gate_rows(x, logits);
}

void ProfilingKernels::copy_block(std::span<mx::array* const> pools, int from, int to) const {
  const Measured measured(*profile_, "copy block", "", {.bytes = 2 * block_bytes(pools)});
  measured_->copy_block(pools, from, to);
}

void ProfilingKernels::read_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                                   std::span<std::byte> out) const {
  const Measured measured(*profile_, "read blocks", "", {.bytes = 2.0 * static_cast<double>(out.size())});
  measured_->read_blocks(pools, blocks, out);
}

void ProfilingKernels::write_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                                    std::span<const std::byte> contents) const {
  const Measured measured(*profile_, "write blocks", "", {.bytes = 2.0 * static_cast<double>(contents.size())});
  measured_->write_blocks(pools, blocks, contents);
}

}  // namespace redpoll::kernels
