#include "checkpoint/near_matches.h"

#include <algorithm>
#include <numeric>

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
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
