#include "kernels/cpu/topology.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cgroups.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace redpoll::kernels::cpu {
namespace {

namespace fs = std::filesystem;

/// The smaller of two limits, of which 0 is none.
int lower(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

/// Of one group: version 2 keeps quota and period in one file, version 1 in two, with -1 for none.
int cores_of_group(const fs::path& group) {
  const int unified = cores_of_quota(first_line(group / "cpu.max"));
  const int legacy =
      cores_of_quota(first_line(group / "cpu.cfs_quota_us") + ' ' + first_line(group / "cpu.cfs_period_us"));
  return lower(unified, legacy);
}

int cores_of_folders(const std::vector<fs::path>& folders) {
  int cores = 0;
  for (const fs::path& folder : folders) cores = lower(cores, cores_of_group(folder));
  return cores;
}

#if defined(__linux__)

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
  return lower(cores, cores_of_folders(own_cgroup_folders("cpu")));
}

#else

int usable_cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

#endif

}  // namespace

int cores_of_quota(std::string_view cpu_max) {
  long quota = 0;
  long period = 0;
  const char* begin = cpu_max.data();
  const char* end = begin + cpu_max.size();
  const auto first = std::from_chars(begin, end, quota);
  if (first.ec != std::errc{} || first.ptr == end) return 0;
  const auto second = std::from_chars(first.ptr + 1, end, period);
  if (second.ec != std::errc{} || quota <= 0 || period <= 0) return 0;
  return static_cast<int>((quota + period - 1) / period);
}

int cores_of_groups(const fs::path& root, std::string_view membership) {
  return cores_of_folders(cgroup_folders(root, membership, "cpu"));
}

int num_usable_cores() { return std::max(1, usable_cores()); }

}  // namespace redpoll::kernels::cpu
