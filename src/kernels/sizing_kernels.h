// SizingKernels: a kernel set that keeps no weights, so that a model can be built to see whether its checkpoint fits
// and how much memory it takes, in milliseconds. Such a model computes nothing: the graph of a forward pass can be
// built, and its arrays have the shapes and types that they would have, but what they hold means nothing.
#pragma once

#include "kernels/reference.h"

namespace redpoll::kernels {

class SizingKernels final : public ReferenceKernels {
 public:
  /// As `like` would hold the model, which must outlive it.
  explicit SizingKernels(const Kernels& like)
      : ReferenceKernels(like.takes_small_floats()),  // as the exact tier alone does
        like_(like) {}

  [[nodiscard]] bool keeps_types() const override { return like_.keeps_types(); }
  [[nodiscard]] bool takes_small_floats() const override { return like_.takes_small_floats(); }
  [[nodiscard]] std::shared_ptr<const Matrix> make_matrix(MatrixWeights weights) const override;
  [[nodiscard]] std::shared_ptr<const Experts> make_experts(std::vector<MatrixWeights> weights) const override;
  [[nodiscard]] mx::array run_experts(const mx::array& x, const Routing& routing,
                                      const ExpertMlps& mlps) const override;

 private:
  const Kernels& like_;
};

}  // namespace redpoll::kernels
