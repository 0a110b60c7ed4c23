#include "cache/disk_scan.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "cache/disk_directory.h"

namespace redpoll::cache {
namespace {

/// What is known of the file; nothing of one that is larger or smaller now.
std::optional<std::size_t> place_in(std::span<const DiskIndex::Known> known, const ListedFile& file) {
  const std::optional<ParsedName> name = parse_file_name(file.name);
  if (!name) return std::nullopt;
  const auto found = std::ranges::lower_bound(known, name->key, {}, &DiskIndex::Known::key);
  if (found == known.end() || found->key != name->key || found->kind != name->kind || found->bytes != file.bytes) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - known.begin());
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

void DiskChanges::apply_to(DiskIndex& index) && {
  for (const ContentKey& key : gone) index.remove(key);
  for (Added& file : added) index.add(std::move(file.head), file.bytes, file.used_at);
  for (const auto& [key, used_at] : used) index.touch_elsewhere(key, used_at);
  index.swap_foreign(foreign);
}

DiskScan::DiskScan(DiskTierOptions options)
    : options_(std::move(options)), folder_(folder_name(options_.fingerprint)) {}

Result<DiskChanges> DiskScan::start() {
  if (const auto folder = DiskFolder::open_or_make(options_.directory, folder_)) {
    if (::access(folder->path().c_str(), W_OK | X_OK) != 0) return system_error("write into", folder->path());
  } else if (folder.error().code != ErrorCode::kUnavailable) {
    return std::unexpected(folder.error());
  }
  is_starting_ = true;
  auto changes = look({});
  is_starting_ = false;
  return changes;
}

Result<DiskChanges> DiskScan::look(std::span<const DiskIndex::Known> known) {
  seen_.clear();
  DiskChanges changes;
  RETURN_IF_ERROR(look_at_own(known, changes));
  const auto names = list_folders(options_.directory);
  if (!names && names.error().code != ErrorCode::kNotFound) return std::unexpected(names.error());
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (name == folder_) continue;
    const Status status = look_at_foreign(name, changes);
    if (!status) report("cannot look into a folder of the disk cache", {"why", status.error().message});
  }
  reported_.swap(seen_);
  return changes;
}

Status DiskScan::look_at_own(std::span<const DiskIndex::Known> known, DiskChanges& changes) {
  const auto folder = DiskFolder::open(options_.directory, folder_);
  if (!folder && folder.error().code != ErrorCode::kNotFound) return std::unexpected(folder.error());
  DiskFolder::Listing listing;
  if (folder) {
    ASSIGN_OR_RETURN(listing, folder->list());
    discard_unfinished(*folder, listing);
    report_untrusted(*folder, listing);
  }
  std::vector<bool> is_there(known.size());
  std::vector<const ListedFile*> unknown;
  for (const ListedFile& file : listing.files) {
    const std::optional<std::size_t> place = place_in(known, file);
    if (!place) {
      if (!left_out_.contains(file.name)) unknown.push_back(&file);
      continue;
    }
    is_there[*place] = true;
    if (file.used_at > known[*place].used_at) changes.used.emplace_back(known[*place].key, file.used_at);
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!is_there[i]) changes.gone.push_back(known[i].key);
  }
  for (const ListedFile* file : unknown) add(*folder, *file, changes);
  return {};
}

void DiskScan::add(const DiskFolder& folder, const ListedFile& file, DiskChanges& changes) {
  const auto read = [&]() -> Result<StoredHead> {
    ASSIGN_OR_RETURN(FileHeader header, folder.read_header(file.name, options_.max_file_bytes));
    RETURN_IF_ERROR(check_owner(header, options_.fingerprint, options_.run_tokens));
    return std::move(header.head);
  };
  auto head = read();
  if (head) {
    changes.added.push_back({.head = *std::move(head), .bytes = file.bytes, .used_at = file.used_at});
  } else if (is_damaged(head.error())) {
    discard(folder, file.name, head.error().message);
  } else if (head.error().code != ErrorCode::kNotFound) {  // else another server has evicted it
    report("cannot use a file of the disk cache", {"why", head.error().message});
  }
}

Status DiskScan::look_at_foreign(const std::string& name, DiskChanges& changes) {
  const auto folder = DiskFolder::open(options_.directory, name);
  if (!folder && folder.error().code == ErrorCode::kNotFound) return {};  // another server has removed it
  if (!folder) return std::unexpected(folder.error());
  ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder->list());
  discard_unfinished(*folder, listing);
  report_untrusted(*folder, listing);
  std::vector<ContentKey> runs;
  for (const ListedFile& file : listing.files) {
    changes.foreign.add({.folder = name, .name = file.name, .bytes = file.bytes}, file.used_at);
    const std::optional<ParsedName> parsed = parse_file_name(file.name);
    if (parsed && parsed->kind == StoredKind::kRun) runs.push_back(parsed->key);  // in order, as their names are
  }
  if (runs.empty()) return {};
  const auto keys = run_keys_of(*folder, file_name(StoredKind::kRun, runs.front()));
  if (keys) changes.foreign.add_runs(name, *keys, std::move(runs));
  return {};
}

/// The header of any run says it, once and for all.
std::optional<RunKeys> DiskScan::run_keys_of(const DiskFolder& folder, const std::string& run) {
  const std::string name = folder.path().filename().string();
  if (const auto known = run_keys_.find(name); known != run_keys_.end()) return known->second;
  const auto header = folder.read_header(run);
  if (!header || header->head.tokens.empty()) return std::nullopt;
  const RunKeys keys{.root = root_key(header->fingerprint), .run_tokens = static_cast<int>(header->head.tokens.size())};
  run_keys_.emplace(name, keys);
  return keys;
}

/// At the start only: a writer that has made its file and not locked it yet would find it locked.
void DiskScan::discard_unfinished(const DiskFolder& folder, const DiskFolder::Listing& listing) const {
  if (!is_starting_) return;
  for (const ListedFile& file : listing.unfinished) {
    if (!folder.remove_unfinished(file.name)) continue;
    log_warn("removed a file of the disk cache",
             {{"path", (folder.path() / file.name).string()}, {"why", "half written, and nobody is writing it"}});
  }
}

void DiskScan::report_untrusted(const DiskFolder& folder, const DiskFolder::Listing& listing) {
  for (const std::string& name : listing.untrusted) {
    report("a file of the disk cache is ignored: it belongs to another user",
           {"path", (folder.path() / name).string()});
  }
}

/// Once, for as long as every look finds it.
void DiskScan::report(std::string_view message, LogField about) {
  if (seen_.insert(about.second).second && !reported_.contains(about.second)) log_warn(message, {std::move(about)});
}

}  // namespace redpoll::cache
