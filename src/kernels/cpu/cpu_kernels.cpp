#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {

std::string_view CpuKernels::name() const {
  switch (context_->variant) {
    case Variant::kAvx512: return "cpu-avx512";
    case Variant::kAvx2: return "cpu-avx2";
    case Variant::kPortable: break;
  }
  return "cpu-portable";
}

std::shared_ptr<const Matrix> CpuKernels::make_matrix(MatrixWeights weights) const {
  return std::make_shared<PackedMatrix>(context_, weights);
}

}  // namespace redpoll::kernels::cpu
