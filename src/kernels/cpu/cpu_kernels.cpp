#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {

std::string_view CpuKernels::name() const { return context_->name; }

std::shared_ptr<const Matrix> CpuKernels::make_matrix(MatrixWeights weights) const {
  return std::make_shared<PackedMatrix>(context_, weights);
}

std::size_t CpuKernels::matrix_bytes(const MatrixWeights& weights) const {
  return packed_bytes(weights, context_->loops.lanes);
}

std::vector<mx::array> CpuKernels::multiply_all(const mx::array& x, std::span<const Matrix* const> matrices) const {
  std::vector<const PackedMatrix*> packed;
  packed.reserve(matrices.size());
  for (const Matrix* matrix : matrices) packed.push_back(static_cast<const PackedMatrix*>(matrix));  // see make_matrix
  return multiply_packed(*context_, x, packed);
}

}  // namespace redpoll::kernels::cpu
