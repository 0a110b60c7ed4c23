#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {

std::string_view CpuKernels::name() const { return context_->name; }

std::shared_ptr<const Matrix> CpuKernels::make_matrix(MatrixWeights weights) const {
  return std::make_shared<PackedMatrix>(context_, weights);
}

}  // namespace redpoll::kernels::cpu
