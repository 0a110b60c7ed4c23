// Scanning the directory of the disk tier at start: what is usable goes into the books, what is damaged, foreign or
// half written is removed. Internal to the disk tier.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "cache/disk_folder.h"
#include "cache/disk_index.h"

namespace redpoll::cache {

/// Whether reading failed for what is in the file, which will not change.
[[nodiscard]] bool is_damaged(const Error& error);

/// An Error, which does not name the file, unless the file could have been written for this fingerprint.
[[nodiscard]] Status check_owner(const FileHeader& header, const std::string& fingerprint, int run_tokens);

/// Removes a file that is of no use, and says so in the log.
void discard(const DiskFolder& folder, const std::string& name, const std::string& why);

/// Makes what is not there yet. Files of more than `max_file_bytes` are damaged. An Error when the directory cannot be
/// made, listed, written to or trusted: see DiskFolder.
[[nodiscard]] Result<DiskIndex> scan_directory(const std::filesystem::path& directory, const DiskIndexOptions& options,
                                               std::uint64_t max_file_bytes);

}  // namespace redpoll::cache
