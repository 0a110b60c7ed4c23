#include "server/fit/memory_speed.h"

#include "kernels/cpu/rates.h"
#include "kernels/cpu/topology.h"

namespace redpoll::server {

double MemorySpeed::measure() {
  kernels::cpu::ThreadTeam team(kernels::cpu::num_usable_cores());
  return kernels::cpu::measure_read_gb_per_s(team);
}

}  // namespace redpoll::server
