#include "cache/foreign_files.h"

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

}  // namespace redpoll::cache
