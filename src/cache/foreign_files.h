// ForeignFiles: what the disk tier knows of the files of other fingerprints in its directory: their age and size, since
// they count towards the limit and are given up like its own, and which texts begin their runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "cache/disk_format.h"

namespace redpoll::cache {

/// A file by its place in the directory of the disk tier.
struct DiskFile {
  std::string folder;
  std::string name;
  std::uint64_t bytes = 0;
};

/// What makes the keys of a fingerprint's runs.
struct RunKeys {
  ContentKey root{};
  int run_tokens = 0;
};

class ForeignFiles {
 public:
  void add(DiskFile file, FileTime used_at);
  /// Nothing where there are no files.
  [[nodiscard]] std::optional<FileTime> oldest_use() const;
  /// Strikes off the file that was not used for the longest time. There must be one.
  [[nodiscard]] DiskFile take_oldest();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Runs that were in a folder when it was last looked at, sorted by their keys.
  void add_runs(std::string folder, const RunKeys& keys, std::vector<ContentKey> runs);
  struct Beginning {
    std::string folder;  // empty: none
    int num_tokens = 0;
  };
  /// The folder whose runs hold most of the tokens, from the first one on.
  [[nodiscard]] Beginning longest_beginning(std::span<const TokenId> tokens) const;

 private:
  struct Runs {
    RunKeys keys;
    std::vector<ContentKey> present;
  };

  std::multimap<FileTime, DiskFile> files_;
  std::uint64_t bytes_ = 0;
  std::map<std::string, Runs> runs_;  // by folder
};

}  // namespace redpoll::cache
