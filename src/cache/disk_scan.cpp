#include "cache/disk_scan.h"

#include <unistd.h>

#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "cache/disk_directory.h"

namespace redpoll::cache {
namespace {

void discard_unfinished(const DiskFolder& folder, const DiskFolder::Listing& listing) {
  for (const ListedFile& file : listing.unfinished) {
    if (!folder.remove_unfinished(file.name)) continue;
    log_warn("removed a file of the disk cache",
             {{"path", (folder.path() / file.name).string()}, {"why", "half written, and nobody is writing it"}});
  }
}

void report_untrusted(const DiskFolder& folder, const DiskFolder::Listing& listing) {
  for (const std::string& name : listing.untrusted) {
    log_warn("a file of the disk cache is ignored: it belongs to another user",
             {{"path", (folder.path() / name).string()}});
  }
}

Result<StoredHead> read_own(const DiskFolder& folder, const std::string& name, const DiskIndexOptions& options,
                            std::uint64_t max_file_bytes) {
  ASSIGN_OR_RETURN(FileHeader header, folder.read_header(name, max_file_bytes));
  RETURN_IF_ERROR(check_owner(header, options.fingerprint, options.run_tokens));
  return std::move(header.head);
}

Status scan_own(const DiskFolder& folder, const DiskIndexOptions& options, std::uint64_t max_file_bytes,
                DiskIndex& index) {
  ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder.list());
  discard_unfinished(folder, listing);
  report_untrusted(folder, listing);
  for (const ListedFile& file : listing.files) {
    auto head = read_own(folder, file.name, options, max_file_bytes);
    if (head) {
      index.add(*std::move(head), file.bytes, file.used_at);
    } else if (is_damaged(head.error())) {
      discard(folder, file.name, head.error().message);
    } else if (head.error().code != ErrorCode::kNotFound) {  // else another server has evicted it
      log_warn("cannot use a file of the disk cache", {{"why", head.error().message}});
    }
  }
  return {};
}

Status scan_foreign(const DiskFolder& folder, DiskIndex& index) {
  ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder.list());
  discard_unfinished(folder, listing);
  report_untrusted(folder, listing);
  for (const ListedFile& file : listing.files) {
    index.add_foreign({.folder = folder.path().filename().string(), .name = file.name, .bytes = file.bytes},
                      file.used_at);
  }
  return {};
}

}  // namespace

bool is_damaged(const Error& error) {
  return error.code == ErrorCode::kCorruptFile || error.code == ErrorCode::kUnsupported;
}

Status check_owner(const FileHeader& header, const std::string& fingerprint, int run_tokens) {
  const auto wrong = [](std::string message) { return fail(ErrorCode::kCorruptFile, std::move(message)); };
  const StoredHead& head = header.head;
  if (header.fingerprint != fingerprint) return wrong("it is of another model: " + header.fingerprint);
  const int num_tokens = static_cast<int>(head.tokens.size());
  if (head.kind == StoredKind::kRun && num_tokens != run_tokens) {
    return wrong("expected runs of " + std::to_string(run_tokens) + " tokens, got " + std::to_string(num_tokens));
  }
  if (head.first_token % run_tokens != 0) {
    return wrong("expected a beginning where a run of " + std::to_string(run_tokens) + " tokens ends, got " +
                 std::to_string(head.first_token));
  }
  return {};
}

void discard(const DiskFolder& folder, const std::string& name, const std::string& why) {
  const Status removed = folder.remove(name);
  log_warn(removed ? "removed a file of the disk cache" : "cannot remove a bad file of the disk cache",
           {{"path", (folder.path() / name).string()}, {"why", removed ? why : removed.error().message}});
}

Result<DiskIndex> scan_directory(const std::filesystem::path& directory, const DiskIndexOptions& options,
                                 std::uint64_t max_file_bytes) {
  DiskIndex index(options);
  const std::string own = folder_name(options.fingerprint);
  if (const auto folder = DiskFolder::open_or_make(directory, own)) {
    if (::access(folder->path().c_str(), W_OK | X_OK) != 0) return system_error("write into", folder->path());
    RETURN_IF_ERROR(scan_own(*folder, options, max_file_bytes, index));
  } else if (folder.error().code != ErrorCode::kUnavailable) {
    return std::unexpected(folder.error());
  }
  const auto names = list_folders(directory);
  if (!names && names.error().code == ErrorCode::kNotFound) return index;  // there was no room to make it, either
  if (!names) return std::unexpected(names.error());
  for (const std::string& name : *names) {
    if (name == own) continue;
    const auto folder = DiskFolder::open(directory, name);
    const Status status = folder ? scan_foreign(*folder, index) : Status(std::unexpected(folder.error()));
    if (!status) log_warn("cannot look into a folder of the disk cache", {{"why", status.error().message}});
  }
  return index;
}

}  // namespace redpoll::cache
