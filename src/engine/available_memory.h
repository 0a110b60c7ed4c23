// How much memory this process may use: what the machine has, or less where a container says so.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace redpoll::engine {

[[nodiscard]] std::size_t available_memory_bytes();

/// The lowest memory.max of a control group (version 2) and its parents, if any is set. `root` is where the hierarchy
/// is mounted, `membership` the content of /proc/self/cgroup.
[[nodiscard]] std::optional<std::size_t> cgroup_memory_limit(const std::filesystem::path& root,
                                                             std::string_view membership);

}  // namespace redpoll::engine
