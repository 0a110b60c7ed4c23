// SizingKernels: a kernel set that keeps no weights, so that a model can be built to see whether its checkpoint fits
// and how much memory it takes, in milliseconds. Such a model computes nothing.
#pragma once

#include "kernels/reference.h"

namespace redpoll::kernels {

class SizingKernels final : public ReferenceKernels {
 public:
  [[nodiscard]] std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const override;
  [[nodiscard]] std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const override;
};

}  // namespace redpoll::kernels
