// Control groups of Linux: where the limits stand that a container or a service manager has set for this process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace redpoll {

/// The groups that `membership`, the text of /proc/self/cgroup, names for a controller ("cpu", "memory") under `root`,
/// each followed by those above it: of version 2, and of the controller's own hierarchy where version 1 is in use. A
/// group in a container may not exist under its own name; its mount, which is the last, does.
[[nodiscard]] std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root,
                                                                std::string_view membership,
                                                                std::string_view controller);

/// Of this process; nothing on other systems.
[[nodiscard]] std::vector<std::filesystem::path> own_cgroup_folders(std::string_view controller);

/// Up to its end, or empty: such files report a size of 0.
[[nodiscard]] std::string first_line(const std::filesystem::path& path);

}  // namespace redpoll
