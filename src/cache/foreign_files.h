// ForeignFiles: what the disk tier knows of the files of other fingerprints in its directory: their age and size, since
// they count towards the limit and are given up like its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cache/disk_format.h"

namespace redpoll::cache {

/// A file by its place in the directory of the disk tier.
struct DiskFile {
  std::string folder;
  std::string name;
  std::uint64_t bytes = 0;
};

class ForeignFiles {
 public:
  void add(DiskFile file, FileTime used_at);
  /// Nothing where there are no files.
  [[nodiscard]] std::optional<FileTime> oldest_use() const;
  /// Strikes off the file that was not used for the longest time. There must be one.
  [[nodiscard]] DiskFile take_oldest();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::multimap<FileTime, DiskFile> files_;
  std::uint64_t bytes_ = 0;
};

}  // namespace redpoll::cache
