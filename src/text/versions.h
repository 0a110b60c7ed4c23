// The versions of the libraries behind text/, for `redpoll version`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace redpoll::text {

/// Name and version of each.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace redpoll::text
