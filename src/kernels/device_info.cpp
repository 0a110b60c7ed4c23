#include "kernels/device_info.h"

#include <mlx/device.h>
#include <mlx/version.h>

#include "kernels/kernels.h"

namespace redpoll::kernels {

DeviceInfo describe_device(const KernelOptions& options) {
  const auto kernels = make_kernels(options);
  return {.mlx_version = mx::version(),
          .device = mx::default_device() == mx::Device::gpu ? "gpu" : "cpu",
          .kernel_set = std::string(kernels->name())};
}

}  // namespace redpoll::kernels
