// DeviceInfo: what kernels would run on here, for people. Free of MLX, so that every layer may ask.
#pragma once

#include <string>

#include "kernels/kernel_options.h"

namespace redpoll::kernels {

struct DeviceInfo {
  std::string mlx_version;
  std::string device;      // "cpu" or "gpu"
  std::string kernel_set;  // what make_kernels gives for the options: Kernels::name
};

/// What decides which bits MLX's operations give here, beside their inputs: which device that is and MLX's
/// version; on a CPU the C library's; on a GPU the libraries whose kernels it calls there, the CUDA driver, and whether
/// it rounds float32 to TF32 in products (MLX_ENABLE_TF32). Libraries and driver as far as MLX has loaded them. Left
/// out: the compiler of kernels that are made at run time, and other variables of the environment that its libraries
/// read.
[[nodiscard]] std::string device_identity();

/// Whether MLX, and so every kernel set, computes on a CPU here.
[[nodiscard]] bool computes_on_cpu();

[[nodiscard]] DeviceInfo describe_device(KernelOptions options = {});

}  // namespace redpoll::kernels
