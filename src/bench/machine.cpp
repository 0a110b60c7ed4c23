// The only file of this folder that asks the operating system.
#include "bench/machine.h"

#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "kernels/cpu/topology.h"

namespace redpoll::bench {
namespace {

std::string system_cpu_name() {
#ifdef __APPLE__
  char name[256];
  std::size_t size = sizeof name;
  if (::sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) return name;
  return {};
#else
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return internal::cpu_name_in(text.str());
#endif
}

// "aarch64" where the system has no better name.
std::string architecture() {
  utsname system{};
  return ::uname(&system) == 0 ? system.machine : "unknown";
}

}  // namespace

namespace internal {

std::string cpu_name_in(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(':');
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }
  return {};
}

}  // namespace internal

Machine describe_machine() {
  Machine machine;
  machine.cpu = system_cpu_name();
  if (machine.cpu.empty()) machine.cpu = architecture();
  machine.usable_cores = kernels::cpu::num_usable_cores();
  if (::getloadavg(&machine.load_average, 1) != 1) machine.load_average = std::numeric_limits<double>::quiet_NaN();
  return machine;
}

}  // namespace redpoll::bench
