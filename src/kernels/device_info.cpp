#include "kernels/device_info.h"

#include <mlx/device.h>
#include <mlx/version.h>

#include "kernels/kernels.h"

namespace redpoll::kernels {

DeviceInfo describe_device() {
  const auto kernels = make_kernels({.num_threads = 1});  // the name is that of any number, and this one starts none
  return {.mlx_version = mx::version(),
          .device = mx::default_device() == mx::Device::gpu ? "gpu" : "cpu",
          .kernel_set = std::string(kernels->name())};
}

}  // namespace redpoll::kernels
