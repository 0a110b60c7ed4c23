// Suggestions for a path that does not exist. Internal to checkpoint/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace redpoll::checkpoint {

/// Up to three entries of the path's parent folder that are spelled like its last part, best first.
[[nodiscard]] std::vector<std::string> near_matches(const std::filesystem::path& missing);

}  // namespace redpoll::checkpoint
