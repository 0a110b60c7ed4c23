// The choice of a kernel set: the only file that knows them all.
#include <mlx/compile.h>
#include <mlx/device.h>

#include <cstdlib>
#include <utility>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/topology.h"
#include "kernels/kernels.h"
#include "kernels/profiling_kernels.h"
#include "kernels/reference.h"

namespace redpoll::kernels {

std::unique_ptr<Kernels> make_kernels(const KernelOptions& options) {
  const bool on_cpu = mx::default_device() == mx::Device::cpu;
  if (on_cpu) mx::disable_compile();
  if (!on_cpu || options.reference || options.exact) return std::make_unique<ReferenceKernels>(options.exact);
  const int num_threads = options.num_threads > 0 ? options.num_threads : cpu::num_usable_cores();
  const cpu::Variant variant = cpu::chosen_variant().value_or(cpu::available_variants().back());  // see check_options
  const Activations activations = options.activations.value_or(cpu::usual_activations(variant));
  std::unique_ptr<Kernels> kernels =
      std::make_unique<cpu::CpuKernels>(variant, num_threads, activations, options.kv_type);
  if (!options.profile) return kernels;
  return std::make_unique<ProfilingKernels>(std::move(kernels), options.profile, activations);
}

}  // namespace redpoll::kernels
