#include "kernels/cpu/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace redpoll::kernels::cpu {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Splits off what stands before `separator`, or all.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

bool names_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    if (take_until(controllers, ',') == "cpu") return true;
  }
  return false;
}

/// The smaller of two limits, of which 0 is none.
int lower(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

/// Of one group: version 2 keeps quota and period in one file, version 1 in two, with -1 for none.
int cores_of_group(const fs::path& group) {
  const int unified = cores_of_quota(first_line(group / "cpu.max"));
  const int legacy =
      cores_of_quota(first_line(group / "cpu.cfs_quota_us") + ' ' + first_line(group / "cpu.cfs_period_us"));
  return lower(unified, legacy);
}

/// Of a group and those above it up to `mount`.
int cores_of_group_and_above(const fs::path& mount, std::string_view path) {
  fs::path group = mount / path.substr(std::min(path.find_first_not_of('/'), path.size()));
  int cores = 0;
  for (;; group = group.parent_path()) {
    cores = lower(cores, cores_of_group(group));
    if (group == mount || group == group.root_path() || group.empty()) return cores;
  }
}

#if defined(__linux__)

std::string read_pseudo_file(const fs::path& path) {  // those report a size of 0
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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
  return lower(cores, cores_of_groups("/sys/fs/cgroup", read_pseudo_file("/proc/self/cgroup")));
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
  int cores = 0;
  while (!membership.empty()) {  // lines of "number:controllers:path"; version 2 has the number 0 and no controllers
    std::string_view line = take_until(membership, '\n');
    const bool is_unified = take_until(line, ':') == "0";
    const std::string_view controllers = take_until(line, ':');
    if (is_unified) cores = lower(cores, cores_of_group_and_above(root, line));
    if (names_cpu(controllers)) cores = lower(cores, cores_of_group_and_above(root / controllers, line));
  }
  return cores;
}

int num_usable_cores() { return std::max(1, usable_cores()); }

}  // namespace redpoll::kernels::cpu
