#include "kernels/device_info.h"

#include <mlx/device.h>
#include <mlx/version.h>

#include "kernels/kernels.h"

namespace redpoll::kernels {

DeviceInfo describe_device(KernelOptions options) {
  options.num_threads = 1;  // the name is that of any number, and one starts none
  const auto kernels = make_kernels(options);
  return {.mlx_version = mx::version(),
          .device = mx::default_device() == mx::Device::gpu ? "gpu" : "cpu",
          .kernel_set = std::string(kernels->name())};
}

}  // namespace redpoll::kernels
