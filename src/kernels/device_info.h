// DeviceInfo: what kernels would run on here, for people. Free of MLX, so that every layer may ask.
#pragma once

#include <string>

namespace redpoll::kernels {

struct DeviceInfo {
  std::string mlx_version;
  std::string device;      // "cpu" or "gpu"
  std::string kernel_set;  // what make_kernels gives: Kernels::name
};

[[nodiscard]] DeviceInfo describe_device();

}  // namespace redpoll::kernels
