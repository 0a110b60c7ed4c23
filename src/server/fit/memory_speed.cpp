#include "server/fit/memory_speed.h"

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "kernels/cpu/rates.h"
#include "kernels/cpu/topology.h"
#include "kernels/device_info.h"

namespace redpoll::server {

std::optional<double> MemorySpeed::measure(std::size_t spare_bytes) {
  const std::size_t num_bytes = std::min(spare_bytes, kernels::cpu::usual_bytes_to_read());
  if (!kernels::computes_on_cpu() || num_bytes < kernels::cpu::least_bytes_to_read()) return std::nullopt;
  try {
    kernels::cpu::ThreadTeam team(kernels::cpu::num_usable_cores());
    return kernels::cpu::measure_read_gb_per_s(team, num_bytes);
  } catch (const std::exception& error) {  // no memory, no thread
    log_warn("the speed of memory could not be measured", {{"error", error.what()}});
    return std::nullopt;
  }
}

}  // namespace redpoll::server
