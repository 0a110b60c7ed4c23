#include "server/process_memory.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#if defined(__linux__)
#include <unistd.h>

#include <cstdio>
#elif defined(__APPLE__)
#include <mach/mach.h>
#endif

namespace redpoll::server {

#if defined(__linux__)

std::optional<std::size_t> resident_bytes() {
  // statm counts pages: total, then resident.
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return std::nullopt;
  unsigned long total = 0;
  unsigned long resident = 0;
  const int fields = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  if (fields != 2) return std::nullopt;
  return static_cast<std::size_t>(resident) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

#elif defined(__APPLE__)

std::optional<std::size_t> resident_bytes() {
  mach_task_basic_info info{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &count) != KERN_SUCCESS) {
    return std::nullopt;
  }
  return info.resident_size;
}

#else

std::optional<std::size_t> resident_bytes() { return std::nullopt; }

#endif

void release_free_memory() {
#if defined(__GLIBC__)
  (void)malloc_trim(0);
#endif
}

}  // namespace redpoll::server
