#include "cache/foreign_files.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace redpoll::cache {

void ForeignFiles::add(DiskFile file, FileTime used_at) {
  const std::uint64_t bytes = file.bytes;
  files_.emplace(used_at, std::move(file));
  bytes_ += bytes;
}

std::optional<FileTime> ForeignFiles::oldest_use() const {
  return files_.empty() ? std::nullopt : std::optional(files_.begin()->first);
}

DiskFile ForeignFiles::take_oldest() {
  CHECK(!files_.empty(), "there is a file to give up");
  DiskFile file = std::move(files_.begin()->second);
  files_.erase(files_.begin());
  bytes_ -= file.bytes;
  return file;
}

void ForeignFiles::add_runs(std::string folder, const RunKeys& keys, std::vector<ContentKey> runs) {
  CHECK(keys.run_tokens > 0, "a run has tokens");
  runs_.insert_or_assign(std::move(folder), Runs{.keys = keys, .present = std::move(runs)});
}

ForeignFiles::Beginning ForeignFiles::longest_beginning(std::span<const TokenId> tokens) const {
  Beginning longest;
  for (const auto& [folder, runs] : runs_) {
    const auto run_tokens = static_cast<std::size_t>(runs.keys.run_tokens);
    ContentKey last = runs.keys.root;
    auto rest = tokens;
    while (rest.size() >= run_tokens) {
      last = run_key(last, rest.first(run_tokens));
      if (!std::ranges::binary_search(runs.present, last)) break;
      rest = rest.subspan(run_tokens);
    }
    const auto num_tokens = static_cast<int>(tokens.size() - rest.size());
    if (num_tokens > longest.num_tokens) longest = {.folder = folder, .num_tokens = num_tokens};
  }
  return longest;
}

}  // namespace redpoll::cache
