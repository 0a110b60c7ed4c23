// DiskFolder: the folder of one fingerprint's files in the directory of the disk tier: what can be done to a file
// there. Touches regular files with names of ours only, and follows no symbolic link inside the directory. Files appear
// complete or not at all, so any number of processes may use one folder.
//
// What is read becomes part of answers, so nobody else may have written it: the directory and the folder must belong to
// this process's user, or to root, who may do anything, and only their owner may write into them. Files of other users
// are not read.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "cache/disk_format.h"

namespace redpoll::cache {

[[nodiscard]] FileTime file_time_now();

enum class PayloadCheck { kNone, kChecksum };

enum class DiskAccess {
  kTrusting,  // what is read will be used: refuses what other users could have written
  kLooking    // lists, checks and removes whatever is there
};

inline constexpr std::uint64_t kAnySize = std::numeric_limits<std::uint64_t>::max();

struct ListedFile {
  std::string name;
  std::uint64_t bytes = 0;
  FileTime used_at = 0;
};

/// Errors name the path. All functions are safe from any thread.
class DiskFolder {
 public:
  /// kNotFound if it is not there.
  [[nodiscard]] static Result<DiskFolder> open(const std::filesystem::path& directory, const std::string& name,
                                               DiskAccess access = DiskAccess::kTrusting);
  /// Also makes the directory; `was_made` says whether anything had to be made. kUnavailable if there is no room for
  /// it.
  [[nodiscard]] static Result<DiskFolder> open_or_make(const std::filesystem::path& directory, const std::string& name);

  [[nodiscard]] bool was_made() const { return was_made_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  struct Listing {
    std::vector<ListedFile> files;       // with names of ours, sorted by these
    std::vector<ListedFile> unfinished;  // what a writer is at, or left
    std::vector<std::string> untrusted;  // names of ours on files of other users
  };
  [[nodiscard]] Result<Listing> list() const;

  /// Also checks that the file is in the right place: its name, and this folder's, are those of its content. A file of
  /// more than `max_bytes` is kCorruptFile, whatever it says, before memory is taken for it.
  [[nodiscard]] Result<FileHeader> read_header(const std::string& name, std::uint64_t max_bytes = kAnySize) const;
  struct Content {
    FileHeader header;
    Payload payload;
  };
  /// The payload's memory comes from `payloads`.
  [[nodiscard]] Result<Content> read(const std::string& name, PayloadCheck check, PayloadPool& payloads,
                                     std::uint64_t max_bytes = kAnySize) const;

  enum class Written { kNew, kWasThere, kByAnother /* who is at it now */ };
  /// A file of that head which is there and whose header is in order is left as it is. Sizes, checksum and time of
  /// creation of the header are filled in.
  [[nodiscard]] Result<Written> write(FileHeader header, std::span<const std::byte> payload) const;
  /// A folder in the place of a file, or of what it is called while it is written; if there is one, `write` fails.
  [[nodiscard]] std::optional<std::filesystem::path> blocker(const std::string& name) const;
  /// A file that is not there is fine.
  [[nodiscard]] Status remove(const std::string& name) const;
  /// Whether it was one that nobody is writing, and is removed.
  [[nodiscard]] bool remove_unfinished(const std::string& name) const;
  /// kNotFound if it is not there.
  [[nodiscard]] Status set_used_at(const std::string& name, FileTime time) const;
  /// Removes the folder itself if there is nothing in it.
  static void remove_if_empty(const std::filesystem::path& directory, const std::string& name);

 private:
  DiskFolder(std::filesystem::path path, Descriptor descriptor, DiskAccess access)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), access_(access) {}

  struct OpenedFile {
    Descriptor descriptor;
    std::filesystem::path path;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Status check_file(const struct stat& info, const std::filesystem::path& path) const;
  [[nodiscard]] Result<OpenedFile> open_file(const std::string& name, std::uint64_t max_bytes) const;
  [[nodiscard]] Result<FileHeader> read_header(const OpenedFile& file) const;
  [[nodiscard]] Result<Descriptor> lock_temporary(const std::string& name) const;
  [[nodiscard]] bool is_still(const std::string& name, const Descriptor& file) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
  DiskAccess access_;
  bool was_made_ = false;
};

}  // namespace redpoll::cache
