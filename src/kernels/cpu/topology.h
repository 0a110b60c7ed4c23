// Topology: how many threads kernels should use. Knows Linux's files; elsewhere it asks the standard library.
#pragma once

#include <string_view>

namespace redpoll::kernels::cpu {

/// Physical cores that this process may use: those of its affinity mask, two hardware threads of one core counting
/// once, and no more than its control group's CPU quota rounded up. At least 1.
[[nodiscard]] int num_usable_cores();

/// The limit that a control group's `cpu.max` ("QUOTA PERIOD" or "max PERIOD") sets, rounded up; 0 if it sets none.
[[nodiscard]] int cores_of_quota(std::string_view cpu_max);

}  // namespace redpoll::kernels::cpu
