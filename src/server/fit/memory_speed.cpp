#include "server/fit/memory_speed.h"

#include <exception>

#include "kernels/cpu/rates.h"
#include "kernels/cpu/topology.h"

namespace redpoll::server {

std::optional<double> MemorySpeed::measure() {
  try {
    kernels::cpu::ThreadTeam team(kernels::cpu::num_usable_cores());
    return kernels::cpu::measure_read_gb_per_s(team);
  } catch (const std::exception&) {
    return std::nullopt;  // no memory or no threads: nobody knows
  }
}

std::size_t MemorySpeed::bytes() { return kernels::cpu::bytes_to_measure_reading(); }

}  // namespace redpoll::server
