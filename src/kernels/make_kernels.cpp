// The choice of a kernel set. The only file that knows them all.
#include <mlx/compile.h>
#include <mlx/device.h>

#include "kernels/kernels.h"
#include "kernels/reference.h"

namespace redpoll::kernels {

std::unique_ptr<Kernels> make_kernels(const KernelOptions& options) {
  if (mx::default_device() == mx::Device::cpu) mx::disable_compile();
  (void)options;
  return std::make_unique<ReferenceKernels>();
}

}  // namespace redpoll::kernels
