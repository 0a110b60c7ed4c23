// The matrices of the reference kernels: stock MLX products, and mixtures of experts made of them.
#include <mlx/device.h>
#include <mlx/ops.h>

#include <optional>
#include <utility>

#include "kernels/reference.h"

namespace redpoll::kernels {
namespace {

bool on_cpu() { return mx::default_device() == mx::Device::cpu; }

mx::Dtype dtype_of(WeightType type) {
  switch (type) {
    case WeightType::kF16: return mx::float16;
    case WeightType::kBF16: return mx::bfloat16;
    case WeightType::kF32: break;
  }
  return mx::float32;
}

/// Stock MLX sums bfloat16 products in bfloat16 on a CPU, so everything is float32 there.
mx::Dtype compute_dtype(WeightType type) { return on_cpu() ? mx::float32 : dtype_of(type); }

/// A copy of a row-major matrix in checkpoint bytes, which need not be aligned.
mx::array from_bytes(std::span<const std::byte> bytes, int num_rows, mx::Dtype dtype) {
  const int row_bytes = static_cast<int>(bytes.size() / static_cast<std::size_t>(num_rows));
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return mx::view(mx::array(data, {num_rows, row_bytes}, mx::uint8), dtype);
}

mx::array dense_weight(const MatrixWeights& w) { return from_bytes(w.weight, w.out_features, dtype_of(w.type)); }

/// The integers of a quantized matrix, (out, in) float32.
mx::array unpack_integers(const MatrixWeights& w) {
  std::vector<float> integers;
  integers.reserve(static_cast<std::size_t>(w.out_features) * static_cast<std::size_t>(w.in_features));
  const std::uint64_t mask = (std::uint64_t{1} << static_cast<unsigned>(w.bits)) - 1;
  std::uint64_t pending = 0;  // bits read and not yet used, lowest first; a row ends with a byte
  int num_pending = 0;
  for (const std::byte byte : w.weight) {
    pending |= std::to_integer<std::uint64_t>(byte) << static_cast<unsigned>(num_pending);
    for (num_pending += 8; num_pending >= w.bits; num_pending -= w.bits) {
      integers.push_back(static_cast<float>(pending & mask));
      pending >>= static_cast<unsigned>(w.bits);
    }
  }
  return mx::array(integers.data(), {w.out_features, w.in_features}, mx::float32);
}

/// A matrix whose groups MLX cannot multiply.
mx::array dequantized_weight(const MatrixWeights& w) {
  const auto of_groups = [&](std::span<const std::byte> bytes) {
    return mx::expand_dims(mx::astype(from_bytes(bytes, w.out_features, dtype_of(w.type)), mx::float32), 2);
  };
  const int groups = w.in_features / w.group_size;
  const mx::array integers = mx::reshape(unpack_integers(w), {w.out_features, groups, w.group_size});
  const mx::array weight = mx::add(mx::multiply(of_groups(w.scales), integers), of_groups(w.biases));
  return mx::reshape(weight, {w.out_features, w.in_features});
}

class DenseReferenceMatrix final : public Matrix {
 public:
  DenseReferenceMatrix(const MatrixWeights& w, const mx::array& weight)
      : Matrix(w.out_features, w.in_features), weight_(mx::astype(weight, compute_dtype(w.type))) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override { return mx::matmul(x, mx::transpose(weight_)); }
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override { return mx::take(weight_, ids, 0); }
  [[nodiscard]] std::size_t num_bytes() const override { return weight_.nbytes(); }

 private:
  mx::array weight_;  // (out, in)
};

class QuantizedReferenceMatrix final : public Matrix {
 public:
  explicit QuantizedReferenceMatrix(const MatrixWeights& w)
      : Matrix(w.out_features, w.in_features),
        weight_(from_bytes(w.weight, w.out_features, mx::uint32)),
        scales_(mx::astype(from_bytes(w.scales, w.out_features, dtype_of(w.type)), compute_dtype(w.type))),
        biases_(mx::astype(from_bytes(w.biases, w.out_features, dtype_of(w.type)), compute_dtype(w.type))),
        bits_(w.bits),
        group_size_(w.group_size) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override {
    return mx::quantized_matmul(x, weight_, scales_, biases_, /*transpose=*/true, group_size_, bits_);
  }
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override {
    return mx::dequantize(mx::take(weight_, ids, 0), mx::take(scales_, ids, 0), mx::take(biases_, ids, 0), group_size_,
                          bits_);
  }
  [[nodiscard]] std::size_t num_bytes() const override {
    return weight_.nbytes() + scales_.nbytes() + biases_.nbytes();
  }

 private:
  mx::array weight_;  // (out, in * bits / 32) uint32
  mx::array scales_;  // (out, in / group_size)
  mx::array biases_;  // (out, in / group_size)
  int bits_;
  int group_size_;
};

/// Experts' weights, (experts, out, in) or packed.
class ReferenceExperts final : public Experts {
 public:
  explicit ReferenceExperts(std::span<const MatrixWeights> weights)
      : Experts(weights),
        weight_(stacked(weights, &MatrixWeights::weight)),
        scales_(bits() == 0 ? weight_ : stacked(weights, &MatrixWeights::scales)),
        biases_(bits() == 0 ? weight_ : stacked(weights, &MatrixWeights::biases)) {
    if (bits() == 0) weight_ = mx::swapaxes(weight_, 1, 2);
  }

  /// x (tokens, 1 or top_k, 1, in), experts (tokens, top_k) -> (tokens, top_k, 1, out)
  [[nodiscard]] mx::array multiply(const mx::array& x, const mx::array& experts) const {
    if (bits() == 0) return mx::gather_mm(x, weight_, std::nullopt, experts);
    return mx::gather_qmm(x, weight_, scales_, biases_, std::nullopt, experts, /*transpose=*/true, group_size(),
                          bits());
  }
  [[nodiscard]] std::size_t num_bytes() const override {
    return weight_.nbytes() + (bits() == 0 ? 0 : scales_.nbytes() + biases_.nbytes());
  }

 private:
  static mx::array stacked(std::span<const MatrixWeights> weights, std::span<const std::byte> MatrixWeights::* part) {
    const bool is_packed = part == &MatrixWeights::weight && weights.front().bits > 0;
    std::vector<mx::array> arrays;
    for (const MatrixWeights& one : weights) {
      const mx::array array = from_bytes(one.*part, one.out_features, is_packed ? mx::uint32 : dtype_of(one.type));
      arrays.push_back(is_packed ? array : mx::astype(array, compute_dtype(one.type)));
    }
    mx::array stack = mx::stack(arrays);
    stack.eval();
    return stack;
  }

  mx::array weight_;
  mx::array scales_;  // with bits, (experts, out, in / group_size)
  mx::array biases_;
};

}  // namespace

std::shared_ptr<const Matrix> ReferenceKernels::make_matrix(MatrixWeights weights) const {
  if (weights.bits == 0) return std::make_shared<DenseReferenceMatrix>(weights, dense_weight(weights));
  if (weights.group_size < 32) return std::make_shared<DenseReferenceMatrix>(weights, dequantized_weight(weights));
  return std::make_shared<QuantizedReferenceMatrix>(weights);
}

std::vector<mx::array> ReferenceKernels::multiply_all(const mx::array& x,
                                                      std::span<const Matrix* const> matrices) const {
  std::vector<mx::array> products;
  products.reserve(matrices.size());
  for (const Matrix* matrix : matrices) products.push_back(matrix->multiply(x));
  return products;
}

std::shared_ptr<const Experts> ReferenceKernels::make_experts(std::vector<MatrixWeights> weights) const {
  return std::make_shared<ReferenceExperts>(weights);
}

Routing ReferenceKernels::route(const mx::array& logits, const RoutingSpec& spec) const {
  const mx::array shares = mx::softmax(mx::astype(logits, mx::float32), -1, /*precise=*/true);
  const mx::array order = mx::argsort(mx::negative(shares), -1);  // stable: of equals, the first
  const mx::array experts = mx::slice(order, {0, 0}, {logits.shape(0), spec.top_k});
  const mx::array weights = mx::take_along_axis(shares, experts, -1);
  mx::array shown = spec.normalized ? mx::divide(weights, mx::sum(weights, -1, /*keepdims=*/true)) : weights;
  if (spec.expert_scales) shown = mx::multiply(shown, mx::take(*spec.expert_scales, experts, 0));
  return {.experts = mx::astype(experts, mx::int32), .weights = std::move(shown)};
}

mx::array ReferenceKernels::run_experts(const mx::array& x, const Routing& routing, const ExpertMlps& mlps) const {
  const auto multiply = [&](const std::shared_ptr<const Experts>& experts, const std::optional<mx::array>& bias,
                            const mx::array& input) {
    const auto& own = static_cast<const ReferenceExperts&>(*experts);  // see make_experts
    const mx::array product = own.multiply(input, routing.experts);
    return bias ? mx::add(product, mx::expand_dims(mx::take(*bias, routing.experts, 0), 2)) : product;
  };
  const mx::array tokens = mx::expand_dims(x, {1, 2});
  const mx::array inner = gate_multiply(multiply(mlps.gate, mlps.gate_bias, tokens),
                                        multiply(mlps.up, mlps.up_bias, tokens), mlps.activation);
  const mx::array made = mx::squeeze(multiply(mlps.down, mlps.down_bias, inner), 2);  // (tokens, top_k, out)
  const mx::array weights = mx::expand_dims(routing.weights, -1);
  return mx::astype(mx::sum(mx::multiply(made, weights), 1), x.dtype());
}

}  // namespace redpoll::kernels
