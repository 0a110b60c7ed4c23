// The machine that a benchmark ran on, for whoever reads its figures later.
#pragma once

#include <string>

namespace redpoll::bench {

struct Machine {
  std::string cpu;          // the processor's name as the system tells it; "unknown" where it does not
  int usable_cores = 0;     // physical, of those that this process may use
  double load_average = 0;  // runnable threads over the last minute; NaN where the system does not count them
};

[[nodiscard]] Machine describe_machine();

namespace internal {
/// The first "model name" of a /proc/cpuinfo; empty if it has none, as on most machines that are not x86.
[[nodiscard]] std::string cpu_name_in(const std::string& cpuinfo);
}  // namespace internal

}  // namespace redpoll::bench
