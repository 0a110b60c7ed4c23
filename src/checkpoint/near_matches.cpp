#include "checkpoint/near_matches.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

std::vector<std::string> near_matches(const fs::path& missing) {
  constexpr std::size_t kMaxScanned = 10'000;
  constexpr std::size_t kMaxShown = 3;
  const fs::path clean = missing.has_filename() ? missing : missing.parent_path();
  const std::string wanted = lower(clean.filename().string());
  const fs::path parent = clean.has_parent_path() ? clean.parent_path() : fs::path(".");
  std::vector<std::pair<std::size_t, std::string>> ranked;
  std::error_code error;
  std::size_t scanned = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (++scanned > kMaxScanned) break;
    const std::string name = entry.path().filename().string();
    const std::string name_lower = lower(name);
    const bool contains = !wanted.empty() && (name_lower.find(wanted) != std::string::npos ||
                                              wanted.find(name_lower) != std::string::npos);
    const std::size_t distance = edit_distance(wanted, name_lower);
    if (contains || distance <= std::max<std::size_t>(2, wanted.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMaxShown, ranked.size()); ++i) names.push_back(std::move(ranked[i].second));
  return names;
}

}  // namespace redpoll::checkpoint
