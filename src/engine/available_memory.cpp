#include "engine/available_memory.h"

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/cgroups.h"

namespace redpoll::engine {
namespace {

namespace fs = std::filesystem;

std::size_t physical_memory_bytes() {
#if defined(__APPLE__)
  std::uint64_t bytes = 0;
  std::size_t size = sizeof(bytes);
  if (sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0) return bytes;
#elif defined(_SC_PHYS_PAGES)
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
#endif
  return std::size_t{4} << 30U;  // a system that does not say: a cautious guess
}

/// Nothing for "max", which means unlimited.
std::optional<std::size_t> read_limit(const fs::path& path) {
  std::ifstream file(path);
  std::size_t bytes = 0;
  if (file >> bytes) return bytes;
  return std::nullopt;
}

/// Version 2 and version 1 have names of their own for it.
std::optional<std::size_t> lowest_limit(const std::vector<fs::path>& folders) {
  std::optional<std::size_t> lowest;
  for (const fs::path& folder : folders) {
    for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
      if (const auto limit = read_limit(folder / file)) lowest = std::min(lowest.value_or(*limit), *limit);
    }
  }
  return lowest;
}

}  // namespace

std::optional<std::size_t> cgroup_memory_limit(const fs::path& root, std::string_view membership) {
  return lowest_limit(cgroup_folders(root, membership, "memory"));
}

std::size_t available_memory_bytes() {
  const std::size_t physical = physical_memory_bytes();
  return std::min(physical, lowest_limit(own_cgroup_folders("memory")).value_or(physical));
}

}  // namespace redpoll::engine
