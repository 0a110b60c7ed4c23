// Topology: how many threads kernels should use. Knows Linux's files; elsewhere it asks the standard library.
#pragma once

#include <filesystem>
#include <string_view>

namespace redpoll::kernels::cpu {

/// Physical cores that this process may use: those of its affinity mask, two hardware threads of one core counting
/// once, and no more than the CPU quota of its control groups rounded up. At least 1.
[[nodiscard]] int num_usable_cores();

/// The limit that a control group's `cpu.max` ("QUOTA PERIOD" or "max PERIOD") sets, rounded up; 0 if it sets none.
[[nodiscard]] int cores_of_quota(std::string_view cpu_max);

/// The least such limit of the groups that `membership`, the text of /proc/self/cgroup, names and of those above them,
/// in either version of control groups, mounted at `root`; 0 if none has one.
[[nodiscard]] int cores_of_groups(const std::filesystem::path& root, std::string_view membership);

}  // namespace redpoll::kernels::cpu
