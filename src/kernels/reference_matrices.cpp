// The matrices of the reference kernels: stock MLX products, and mixtures of experts made of them.
#include <mlx/device.h>
#include <mlx/ops.h>

#include <optional>
#include <string>
#include <utility>

#include "kernels/reference.h"

namespace redpoll::kernels {
namespace {

std::string mode_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kMxfp4: return "mxfp4";
    case WeightFormat::kMxfp8: return "mxfp8";
    case WeightFormat::kNvfp4: return "nvfp4";
    case WeightFormat::kAffine: break;
  }
  return "affine";
}

/// A copy of a row-major matrix in checkpoint bytes, which need not be aligned.
mx::array from_bytes(std::span<const std::byte> bytes, int num_rows, mx::Dtype dtype) {
  const int row_bytes = static_cast<int>(bytes.size() / static_cast<std::size_t>(num_rows));
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return mx::view(mx::array(data, {num_rows, row_bytes}, mx::uint8), dtype);
}

mx::array dense_weight(const MatrixWeights& w) { return from_bytes(w.weight, w.out_features, mlx_type(w.type)); }

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
    return mx::expand_dims(mx::astype(from_bytes(bytes, w.out_features, mlx_type(w.type)), mx::float32), 2);
  };
  const int groups = w.in_features / w.group_size;
  const mx::array integers = mx::reshape(unpack_integers(w), {w.out_features, groups, w.group_size});
  const mx::array weight = mx::add(mx::multiply(of_groups(w.scales), integers), of_groups(w.biases));
  return mx::reshape(weight, {w.out_features, w.in_features});
}

/// `weight` in the type that is computed in.
class DenseReferenceMatrix final : public Matrix {
 public:
  DenseReferenceMatrix(const MatrixWeights& w, mx::array weight)
      : Matrix(w.out_features, w.in_features), weight_(std::move(weight)) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override { return mx::matmul(x, mx::transpose(weight_)); }
  /// One rounding, in a type that is narrow.
  [[nodiscard]] mx::array multiply_add(const mx::array& x, const mx::array& bias) const {
    return mx::addmm(bias, x, mx::transpose(weight_));
  }
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override { return mx::take(weight_, ids, 0); }
  [[nodiscard]] std::size_t num_bytes() const override { return weight_.nbytes(); }

 private:
  mx::array weight_;  // (out, in)
};

/// Scales, and biases where the format has them: (out, in / group_size) each.
struct GroupFactors {
  mx::array scales;
  std::optional<mx::array> biases;

  /// Those of affine weights become `type`.
  GroupFactors(const MatrixWeights& w, mx::Dtype type)
      : scales(from_bytes(w.scales, w.out_features, w.format == WeightFormat::kAffine ? mlx_type(w.type) : mx::uint8)) {
    if (w.format != WeightFormat::kAffine) return;
    scales = mx::astype(scales, type);
    biases = mx::astype(from_bytes(w.biases, w.out_features, mlx_type(w.type)), type);
  }
  [[nodiscard]] std::size_t num_bytes() const { return scales.nbytes() + (biases ? biases->nbytes() : 0); }
};

class QuantizedReferenceMatrix final : public Matrix {
 public:
  QuantizedReferenceMatrix(const MatrixWeights& w, mx::Dtype type)
      : Matrix(w.out_features, w.in_features),
        weight_(from_bytes(w.weight, w.out_features, mx::uint32)),
        factors_(w, type),
        bits_(w.bits),
        group_size_(w.group_size),
        mode_(mode_of(w.format)) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override {
    return mx::quantized_matmul(x, weight_, factors_.scales, factors_.biases, /*transpose=*/true, group_size_, bits_,
                                mode_);
  }
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override {
    std::optional<mx::array> biases;
    if (factors_.biases) biases = mx::take(*factors_.biases, ids, 0);
    return mx::dequantize(mx::take(weight_, ids, 0), mx::take(factors_.scales, ids, 0), biases, group_size_, bits_,
                          mode_);
  }
  [[nodiscard]] std::size_t num_bytes() const override { return weight_.nbytes() + factors_.num_bytes(); }

 private:
  mx::array weight_;  // (out, in * bits / 32) uint32
  GroupFactors factors_;
  int bits_;
  int group_size_;
  std::string mode_;
};

/// Whether MLX multiplies such without their being dequantized before.
bool mlx_has_groups(const MatrixWeights& w) { return w.format != WeightFormat::kAffine || w.group_size >= 32; }

/// How tokens meet their experts: in their own order, or, if there are many, by ascending expert, so that each weight
/// is read once.
struct ExpertOrder {
  static constexpr std::size_t kMany = 64;

  explicit ExpertOrder(const mx::array& chosen) : experts(chosen), is_sorted(chosen.size() >= kMany) {
    if (!is_sorted) return;
    const mx::array flat = mx::flatten(chosen);
    order = mx::argsort(flat);
    experts = mx::take(flat, *order, 0);
  }
  /// x (tokens, 1, 1, in) -> the same, or (choices, 1, in) of each choice.
  [[nodiscard]] mx::array bring(const mx::array& x, int top_k) const {
    if (!is_sorted) return x;
    return mx::take(mx::flatten(x, 0, 1), mx::floor_divide(*order, mx::array(top_k, order->dtype())), 0);
  }
  /// -> (tokens, top_k, 1, out)
  [[nodiscard]] mx::array bring_back(const mx::array& x, const mx::array& chosen) const {
    if (!is_sorted) return x;
    return mx::unflatten(mx::take(x, mx::argsort(*order), 0), 0, chosen.shape());
  }

  mx::array experts;  // (tokens, top_k), or (choices)
  bool is_sorted;
  std::optional<mx::array> order;  // (choices)
};

/// Experts' weights, (experts, out, in) or packed.
class ReferenceExperts final : public Experts {
 public:
  ReferenceExperts(std::span<const MatrixWeights> weights, bool keeps_types)
      : Experts(weights),
        weight_(stacked(weights,
                        [&](const MatrixWeights& w) {
                          if (w.bits > 0) return from_bytes(w.weight, w.out_features, mx::uint32);
                          return mx::astype(dense_weight(w), keeps_types ? mlx_type(w.type) : mx::float32);
                        })),
        mode_(mode_of(weights.front().format)) {
    if (bits() == 0) {
      weight_ = mx::swapaxes(weight_, 1, 2);
      return;
    }
    const auto factors_of = [&](const MatrixWeights& w) {
      return GroupFactors(w, keeps_types ? mlx_type(w.type) : mx::float32);
    };
    scales_ = stacked(weights, [&](const MatrixWeights& w) { return factors_of(w).scales; });
    if (weights.front().format != WeightFormat::kAffine) return;
    biases_ = stacked(weights, [&](const MatrixWeights& w) { return *factors_of(w).biases; });
  }

  /// x (tokens, 1 or top_k, 1, in) -> (tokens, top_k, 1, out), or the same of sorted choices.
  [[nodiscard]] mx::array multiply(const mx::array& x, const ExpertOrder& order) const {
    if (bits() == 0) return mx::gather_mm(x, weight_, std::nullopt, order.experts, order.is_sorted);
    return mx::gather_qmm(x, weight_, *scales_, biases_, std::nullopt, order.experts, /*transpose=*/true, group_size(),
                          bits(), mode_, /*global_scale=*/std::nullopt, order.is_sorted);
  }
  [[nodiscard]] std::size_t num_bytes() const override {
    return weight_.nbytes() + (scales_ ? scales_->nbytes() : 0) + (biases_ ? biases_->nbytes() : 0);
  }

 private:
  template <typename Part>
  static mx::array stacked(std::span<const MatrixWeights> weights, Part part) {
    std::vector<mx::array> arrays;
    for (const MatrixWeights& one : weights) arrays.push_back(part(one));
    mx::array stack = mx::stack(arrays);
    stack.eval();
    return stack;
  }

  mx::array weight_;
  std::optional<mx::array> scales_;  // (experts, out, in / group_size)
  std::optional<mx::array> biases_;
  std::string mode_;
};

}  // namespace

// Stock MLX sums bfloat16 products in bfloat16 on a CPU, so everything is float32 there, unless that is what is wanted.
bool ReferenceKernels::keeps_types() const { return is_exact_ || mx::default_device() != mx::Device::cpu; }

std::size_t ReferenceKernels::matrix_bytes(const MatrixWeights& weights) const {
  const std::size_t size = keeps_types() ? mlx_type(weights.type).size() : mx::float32.size();
  if (weights.bits == 0 || !mlx_has_groups(weights)) {
    return static_cast<std::size_t>(weights.out_features) * static_cast<std::size_t>(weights.in_features) * size;
  }
  if (weights.format != WeightFormat::kAffine) return Kernels::matrix_bytes(weights);
  return weights.weight.size() + (weights.scales.size() + weights.biases.size()) / mlx_type(weights.type).size() * size;
}

std::shared_ptr<const Matrix> ReferenceKernels::make_matrix(MatrixWeights weights) const {
  const mx::Dtype type = keeps_types() ? mlx_type(weights.type) : mx::float32;
  if (weights.bits > 0 && mlx_has_groups(weights)) return std::make_shared<QuantizedReferenceMatrix>(weights, type);
  const mx::array weight = weights.bits == 0 ? dense_weight(weights) : dequantized_weight(weights);
  return std::make_shared<DenseReferenceMatrix>(weights, mx::astype(weight, type));
}

std::vector<mx::array> ReferenceKernels::multiply_all(const mx::array& x,
                                                      std::span<const Matrix* const> matrices) const {
  std::vector<mx::array> products;
  products.reserve(matrices.size());
  for (const Matrix* matrix : matrices) products.push_back(matrix->multiply(x));
  return products;
}

std::vector<mx::array> ReferenceKernels::apply_all(const mx::array& x, std::span<const LinearMap> maps) const {
  std::vector<mx::array> results;
  results.reserve(maps.size());
  for (const LinearMap& map : maps) {
    const auto* dense = dynamic_cast<const DenseReferenceMatrix*>(map.weight);
    if (map.bias != nullptr && dense != nullptr) {
      results.push_back(dense->multiply_add(x, *map.bias));
    } else {
      const mx::array product = map.weight->multiply(x);
      results.push_back(map.bias != nullptr ? add_bias(product, *map.bias) : product);
    }
  }
  return results;
}

bool ReferenceKernels::multiplies_experts(const MatrixWeights& like) const {
  const bool is_narrow = like.bits == 0 && like.type != WeightType::kF32;
  return !is_narrow || !keeps_types() || mx::default_device() != mx::Device::cpu;
}

std::shared_ptr<const Experts> ReferenceKernels::make_experts(std::vector<MatrixWeights> weights) const {
  if (!multiplies_experts(weights.front())) return nullptr;
  return std::make_shared<ReferenceExperts>(weights, keeps_types());
}

Routing ReferenceKernels::route(const mx::array& logits, const RoutingSpec& spec) const {
  const bool of_chosen = spec.weights == RoutingWeights::kSoftmaxOfChosen;
  const mx::array ranked = of_chosen ? logits : mx::softmax(logits, -1, spec.is_precise);
  const mx::array order = mx::argpartition(ranked, -spec.top_k, -1);
  const int num_experts = logits.shape(1);
  const mx::array experts = mx::slice(order, {0, num_experts - spec.top_k}, {logits.shape(0), num_experts});
  mx::array weights = mx::take_along_axis(ranked, experts, -1);
  if (of_chosen) weights = mx::softmax(weights, -1, spec.is_precise);
  if (spec.weights == RoutingWeights::kNormalizedSoftmax) {
    weights = mx::divide(weights, mx::sum(weights, -1, /*keepdims=*/true));
  }
  if (spec.expert_scales) weights = mx::multiply(weights, mx::take(*spec.expert_scales, experts, 0));
  return {.experts = mx::astype(experts, mx::int32), .weights = std::move(weights)};
}

mx::array ReferenceKernels::run_experts(const mx::array& x, const Routing& routing, const ExpertMlps& mlps) const {
  const ExpertOrder order(routing.experts);
  const auto multiply = [&](const std::shared_ptr<const Experts>& experts, const std::optional<mx::array>& bias,
                            const mx::array& input) {
    const auto& own = static_cast<const ReferenceExperts&>(*experts);  // see make_experts
    const mx::array product = own.multiply(input, order);
    return bias ? mx::add(product, mx::expand_dims(mx::take(*bias, order.experts, 0), -2)) : product;
  };
  const mx::array tokens = order.bring(mx::expand_dims(x, {1, 2}), routing.experts.shape(1));
  const mx::array up = multiply(mlps.up, mlps.up_bias, tokens);
  const mx::array inner = gate_multiply(multiply(mlps.gate, mlps.gate_bias, tokens), up, mlps.activation);
  const mx::array made = order.bring_back(multiply(mlps.down, mlps.down_bias, inner), routing.experts);
  const mx::array weighted = mx::multiply(mx::squeeze(made, 2), mx::expand_dims(routing.weights, -1));
  return mx::astype(mx::sum(weighted, 1), x.dtype());
}

}  // namespace redpoll::kernels
