// DiskScan: what is in the directory of the disk tier, against what the books say of it: at the start, when they say
// nothing, and again and again after that, since others write, evict and delete there too. Internal to the disk tier.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cache/disk_folder.h"
#include "cache/disk_index.h"
#include "cache/disk_tier.h"

namespace redpoll::cache {

/// Whether reading failed for what is in the file, which will not change.
[[nodiscard]] bool is_damaged(const Error& error);

/// An Error, which does not name the file, unless the file could have been written for this fingerprint.
[[nodiscard]] Status check_owner(const FileHeader& header, const std::string& fingerprint, int run_tokens);

/// Removes a file that is of no use, and says so in the log.
void discard(const DiskFolder& folder, const std::string& name, const std::string& why);

/// What the books lack. A file whose parent is gone is none of it: it counts, and can be found once that is back.
struct DiskChanges {
  struct Added {
    StoredHead head;
    std::uint64_t bytes = 0;
    FileTime used_at = 0;
  };
  std::vector<ContentKey> gone;
  std::vector<Added> added;
  std::vector<std::pair<ContentKey, FileTime>> used;  // later than is known
  ForeignFiles foreign;                               // all of them

  void apply_to(DiskIndex& index) &&;
};

/// Used by one thread. Of files that the books have in the size that they are, it reads no header again.
class DiskScan {
 public:
  /// Of the options: directory, fingerprint, run_tokens and max_file_bytes.
  explicit DiskScan(DiskTierOptions options);

  /// Makes what is not there yet, and removes what others have left half written. An Error when the directory cannot be
  /// made, listed, written to or trusted: see DiskFolder.
  [[nodiscard]] Result<DiskChanges> start();
  /// `known`: sorted by keys. Removes what is damaged. An Error when the folder of the fingerprint, or the directory,
  /// cannot be looked at; one that is not there has no files.
  [[nodiscard]] Result<DiskChanges> look(std::span<const DiskIndex::Known> known);
  /// A file that could not be read though its header can: it would be found again and again.
  void leave_out(std::string name) { left_out_.insert(std::move(name)); }

 private:
  [[nodiscard]] Status look_at_own(std::span<const DiskIndex::Known> known, DiskChanges& changes);
  [[nodiscard]] Status look_at_foreign(const std::string& name, DiskChanges& changes);
  [[nodiscard]] std::optional<RunKeys> run_keys_of(const DiskFolder& folder, const std::string& run);
  void add(const DiskFolder& folder, const ListedFile& file, DiskChanges& changes);
  void discard_unfinished(const DiskFolder& folder, const DiskFolder::Listing& listing) const;
  void report_untrusted(const DiskFolder& folder, const DiskFolder::Listing& listing);
  void report(std::string_view message, LogField about);

  DiskTierOptions options_;
  std::string folder_;  // of the fingerprint, in the directory
  bool is_starting_ = false;
  std::map<std::string, RunKeys> run_keys_;  // of other fingerprints, by folder
  std::set<std::string> left_out_;
  std::set<std::string> reported_;  // what was wrong in the last look
  std::set<std::string> seen_;      // and is in this one
};

}  // namespace redpoll::cache
