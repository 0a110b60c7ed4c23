#include "kernels/cpu/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace redpoll::kernels::cpu {
namespace {

#if defined(__linux__)

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Hardware threads of one core list the same siblings; a kernel without that file has none worth counting.
int physical_cores_in_affinity_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string number = std::to_string(cpu);
    const std::string siblings = first_line("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? number : siblings);
  }
  return static_cast<int>(cores.size());
}

int usable_cores() {
  int cores = physical_cores_in_affinity_mask();
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  const int quota = cores_of_quota(first_line("/sys/fs/cgroup/cpu.max"));
  return quota == 0 ? cores : std::min(cores, quota);
}

#else

int usable_cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

#endif

}  // namespace

int cores_of_quota(std::string_view cpu_max) {
  long quota = 0;
  long period = 0;
  const char* end = cpu_max.data() + cpu_max.size();
  const auto first = std::from_chars(cpu_max.data(), end, quota);
  if (first.ec != std::errc{} || first.ptr == end) return 0;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc{} || quota <= 0 || period <= 0) return 0;
  return static_cast<int>((quota + period - 1) / period);
}

int num_usable_cores() { return std::max(1, usable_cores()); }

}  // namespace redpoll::kernels::cpu
