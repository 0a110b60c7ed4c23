#include "base/cgroups.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace redpoll {
namespace {

namespace fs = std::filesystem;

/// Splits off what stands before `separator`, or all.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

bool names(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    if (take_until(controllers, ',') == wanted) return true;
  }
  return false;
}

void add_group_and_above(const fs::path& mount, std::string_view path, std::vector<fs::path>& folders) {
  fs::path group = mount / path.substr(std::min(path.find_first_not_of('/'), path.size()));
  for (;; group = group.parent_path()) {
    folders.push_back(group);
    if (group == mount || group == group.root_path() || group.empty()) return;
  }
}

}  // namespace

std::vector<fs::path> cgroup_folders(const fs::path& root, std::string_view membership, std::string_view controller) {
  std::vector<fs::path> folders;
  while (!membership.empty()) {  // lines of "number:controllers:path"; version 2 has the number 0 and no controllers
    std::string_view line = take_until(membership, '\n');
    const bool is_unified = take_until(line, ':') == "0";
    const std::string_view controllers = take_until(line, ':');
    if (is_unified) add_group_and_above(root, line, folders);
    if (names(controllers, controller)) add_group_and_above(root / controllers, line, folders);
  }
  return folders;
}

std::vector<fs::path> own_cgroup_folders(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(file), {}};
  return cgroup_folders("/sys/fs/cgroup", membership, controller);
}

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace redpoll
