#include "engine/available_memory.h"

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

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

std::string read_pseudo_file(const fs::path& path) {  // those report a size of 0
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Nothing for "max", which means unlimited.
std::optional<std::size_t> read_limit(const fs::path& path) {
  std::ifstream file(path);
  std::size_t bytes = 0;
  if (file >> bytes) return bytes;
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> cgroup_memory_limit(const fs::path& root, std::string_view membership) {
  const std::size_t start = membership.find("0::/");
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view rest = membership.substr(start + 4);
  fs::path group = root / rest.substr(0, rest.find('\n'));

  std::optional<std::size_t> lowest;
  for (;; group = group.parent_path()) {
    if (const auto limit = read_limit(group / "memory.max")) lowest = std::min(lowest.value_or(*limit), *limit);
    if (group == root || group == group.root_path() || group.empty()) return lowest;
  }
}

std::size_t available_memory_bytes() {
  const std::size_t physical = physical_memory_bytes();
  const auto limit = cgroup_memory_limit("/sys/fs/cgroup", read_pseudo_file("/proc/self/cgroup"));
  return std::min(physical, limit.value_or(physical));
}

}  // namespace redpoll::engine
