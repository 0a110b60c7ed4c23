// SizingKernels: a kernel set that keeps no weights, so that a model can be built to see whether its checkpoint fits
// and how much memory it takes, in milliseconds. Such a model computes nothing.
#pragma once

#include "kernels/reference.h"

namespace redpoll::kernels {

class SizingKernels final : public ReferenceKernels {
 public:
  /// As `like` would hold the model, which must outlive it.
  explicit SizingKernels(const Kernels& like) : like_(like) {}

  [[nodiscard]] bool keeps_types() const override { return like_.keeps_types(); }
  [[nodiscard]] bool takes_small_floats() const override { return like_.takes_small_floats(); }
  [[nodiscard]] std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const override;
  [[nodiscard]] std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const override;

 private:
  const Kernels& like_;
};

}  // namespace redpoll::kernels
