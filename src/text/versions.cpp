#include "text/versions.h"

#include <algorithm>

#include "text/rust_call.h"

namespace redpoll::text {

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions;
  RustBuffer buffer;
  if (rp_versions(buffer.out()) != RP_OK) return versions;
  std::string_view lines = buffer.view();
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const std::size_t space = line.find(' ');
    versions.emplace_back(line.substr(0, space), line.substr(space + 1));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
  }
  return versions;
}

}  // namespace redpoll::text
