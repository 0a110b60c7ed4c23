#include "kernels/sizing_kernels.h"

#include <mlx/ops.h>

namespace redpoll::kernels {
namespace {

/// What it gives has the types that ReferenceKernels' matrices give.
class SizedMatrix final : public Matrix {
 public:
  SizedMatrix(const MatrixWeights& w, mx::Dtype type, std::size_t num_bytes)
      : Matrix(w.out_features, w.in_features),
        type_(type),
        is_small_floats_(w.format != WeightFormat::kAffine),
        num_bytes_(num_bytes) {}

  [[nodiscard]] mx::array multiply(const mx::array& x) const override {
    // MLX's products with small floats are of the type of what they are multiplied with.
    return mx::zeros({x.shape(0), out_features()}, is_small_floats_ ? x.dtype() : mx::promote_types(x.dtype(), type_));
  }
  [[nodiscard]] mx::array gather_rows(const mx::array& ids) const override {
    return mx::zeros({ids.shape(0), in_features()}, type_);
  }
  [[nodiscard]] std::size_t num_bytes() const override { return num_bytes_; }

 private:
  mx::Dtype type_;  // of the weights once they are read
  bool is_small_floats_;
  std::size_t num_bytes_;
};

class SizedExperts final : public Experts {
 public:
  SizedExperts(std::span<const MatrixWeights> weights, std::size_t num_bytes)
      : Experts(weights), num_bytes_(num_bytes) {}

  [[nodiscard]] std::size_t num_bytes() const override { return num_bytes_; }

 private:
  std::size_t num_bytes_;
};

}  // namespace

std::shared_ptr<const Matrix> SizingKernels::make_matrix(MatrixWeights weights) const {
  const mx::Dtype type = keeps_types() ? mlx_type(weights.type) : mx::float32;
  return std::make_shared<SizedMatrix>(weights, type, like_.matrix_bytes(weights));
}

std::shared_ptr<const Experts> SizingKernels::make_experts(std::vector<MatrixWeights> weights) const {
  if (!multiplies_experts(weights.front())) return nullptr;
  std::size_t num_bytes = 0;
  for (const MatrixWeights& one : weights) num_bytes += like_.matrix_bytes(one);
  return std::make_shared<SizedExperts>(weights, num_bytes);
}

mx::array SizingKernels::run_experts(const mx::array& x, const Routing& /*routing*/, const ExpertMlps& mlps) const {
  return mx::zeros({x.shape(0), mlps.down->out_features()}, x.dtype());
}

}  // namespace redpoll::kernels
