#include "kernels/device_info.h"

#include <dlfcn.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif
#include <mlx/device.h>
#include <mlx/version.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <variant>

#include "kernels/kernels.h"

namespace redpoll::kernels {

namespace {

/// " NAME VERSION" of a library that MLX has loaded; nothing if it has not.
std::string library_version(const char* name, const char* function) {
  const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(RTLD_DEFAULT, function));
  return version == nullptr ? "" : " " + std::string(name) + " " + std::to_string(version());
}

/// " driver VERSION" of CUDA; nothing if MLX has not loaded one.
std::string driver_version() {
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "cuDriverGetVersion"));
  int number = 0;
  return version == nullptr || version(&number) != 0 ? "" : " driver " + std::to_string(number);
}

/// " libc VERSION", whose functions of floating-point numbers round as that version does.
std::string libc_version() {
#if defined(__GLIBC__)
  return " libc " + std::string(gnu_get_libc_version());
#else
  return "";
#endif
}

/// As MLX reads it, which does not let others ask.
bool rounds_to_tf32() {
  const char* value = std::getenv("MLX_ENABLE_TF32");
  return value == nullptr || std::atoi(value) != 0;
}

}  // namespace

bool computes_on_cpu() { return mx::default_device() == mx::Device::cpu; }

std::string device_identity() {
  const std::string version = " mlx " + std::string(mx::version());
  const auto& info = mx::device_info(mx::default_device());
  std::string identity = computes_on_cpu() ? "cpu" : "gpu";
  for (const char* key : {"device_name", "architecture"}) {  // the first says how many cores there are, too
    if (const auto found = info.find(key); found != info.end()) {
      if (const auto* value = std::get_if<std::string>(&found->second)) identity += " " + *value;
    }
  }
  if (computes_on_cpu()) return identity + version + libc_version();
  return identity + version + library_version("cublasLt", "cublasLtGetVersion") +
         library_version("cudnn", "cudnnGetVersion") + driver_version() + (rounds_to_tf32() ? " tf32" : "");
}

DeviceInfo describe_device(KernelOptions options) {
  options.num_threads = 1;  // the name is that of any number, and one starts none
  const auto kernels = make_kernels(options);
  return {.mlx_version = mx::version(),
          .device = computes_on_cpu() ? "cpu" : "gpu",
          .kernel_set = std::string(kernels->name())};
}

}  // namespace redpoll::kernels
