#include "cache/disk_tier.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/log.h"
#include "cache/disk_folder.h"
#include "cache/disk_scan.h"

namespace redpoll::cache {
namespace {

// Times of use that are written before the thread looks for something more urgent.
constexpr std::size_t kUsesAtOnce = 64;

constexpr std::string_view kCannotWrite =
    "cannot write to the disk cache; prompts are kept in memory only until it works again";

std::uint64_t file_bytes(const StoredHead& head, std::size_t payload_bytes) {
  return std::uint64_t{header_bytes(head)} + payload_bytes;
}

std::uint64_t largest_file(const DiskTierOptions& options) {
  return std::min(options.max_file_bytes, options.max_bytes);
}

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(DiskTierOptions options, std::function<void()> on_change) {
  const DiskIndexOptions books{.fingerprint = options.fingerprint,
                               .run_tokens = options.run_tokens,
                               .runs_have_data = options.runs_have_data,
                               .can_resume_anywhere = options.can_resume_anywhere};
  ASSIGN_OR_RETURN(DiskIndex index, scan_directory(options.directory, books, options.max_file_bytes));
  std::unique_ptr<DiskTier> tier(new DiskTier(std::move(options), std::move(index), std::move(on_change)));
  // What was here before may be more than is allowed now.
  static_cast<void>(tier->make_room({}, 0));
  tier->thread_ = std::jthread([&self = *tier] { self.run(); });
  return tier;
}

DiskTier::DiskTier(DiskTierOptions options, DiskIndex index, std::function<void()> on_change)
    : options_(std::move(options)),
      folder_(folder_name(options_.fingerprint)),
      on_change_(std::move(on_change)),
      index_(std::move(index)) {}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
}

// --- For the engine thread ----------------------------------------------------------------------------------------

DiskTier::Match DiskTier::find(std::span<const TokenId> tokens, int most) const {
  const std::lock_guard lock(mutex_);
  return index_.find(tokens, most);
}

bool DiskTier::holds(StoredKind kind, const ContentKey& key) const {
  const std::lock_guard lock(mutex_);
  return index_.holds(kind, key) || queued_.contains(key);
}

bool DiskTier::write(StoredHead head, std::vector<std::byte> payload) {
  CHECK(head.key == key_of(head), "a file is named by its content");
  const std::size_t size = payload.size();
  {
    const std::lock_guard lock(mutex_);
    if (index_.holds(head.kind, head.key) || queued_.contains(head.key)) return true;
    if (size > options_.max_queued_bytes - queued_bytes_ || file_bytes(head, size) > largest_file(options_)) {
      ++stats_.dropped;
      return false;
    }
    queued_.insert(head.key);
    write_jobs_.push_back({.head = std::move(head), .payload = std::move(payload)});
    queued_bytes_ += size;
  }
  work_.notify_one();
  return true;
}

void DiskTier::read(std::uint64_t id, StoredKind kind, const ContentKey& key) {
  {
    const std::lock_guard lock(mutex_);
    read_jobs_.push_back({.id = id, .kind = kind, .key = key});
  }
  work_.notify_one();
}

std::vector<DiskTier::Restored> DiskTier::take_restored() {
  const std::lock_guard lock(mutex_);
  return std::exchange(restored_, {});
}

void DiskTier::touch(const Match& match) {
  {
    const std::lock_guard lock(mutex_);
    index_.touch(match, file_time_now());
  }
  work_.notify_one();
}

std::size_t DiskTier::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

bool DiskTier::flush(Clock::TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return written_.wait_until(lock, deadline, [this] { return write_jobs_.empty(); });
}

DiskTierStats DiskTier::stats() const {
  const std::lock_guard lock(mutex_);
  DiskTierStats stats = stats_;
  stats.entries = index_.num_entries();
  stats.bytes = index_.bytes();
  stats.max_bytes = options_.max_bytes;
  stats.queued_bytes = queued_bytes_;
  return stats;
}

// --- The disk thread ----------------------------------------------------------------------------------------------

void DiskTier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !read_jobs_.empty() || !write_jobs_.empty() || index_.has_uses(); });
    if (stopping_) break;
    if (!read_jobs_.empty()) {
      const ReadJob job = read_jobs_.front();
      read_jobs_.pop_front();
      lock.unlock();
      read_one(job);
    } else if (!write_jobs_.empty()) {
      const WriteJob& job = write_jobs_.front();  // stays where it is when others are put behind it
      lock.unlock();
      write_one(job);
    } else {
      lock.unlock();
      write_uses(kUsesAtOnce);
    }
    lock.lock();
  }
  lock.unlock();
  write_uses(std::numeric_limits<std::size_t>::max());
}

void DiskTier::read_one(const ReadJob& job) {
  Result<StoredFile> file = read_file(job);
  const ErrorCode code = file ? ErrorCode{} : file.error().code;
  if (file) {
    reads_.note({}, {});
  } else if (code == ErrorCode::kIo || code == ErrorCode::kUnavailable) {
    reads_.note(std::unexpected(file.error()), "cannot read from the disk cache");
  }
  {
    const std::lock_guard lock(mutex_);
    if (file) ++stats_.restores;
    if (!file && code != ErrorCode::kNotFound) ++stats_.failed;
    if (!file && code != ErrorCode::kUnavailable) index_.remove(job.key);
    restored_.push_back({.id = job.id, .file = std::move(file)});
  }
  on_change_();
}

Result<StoredFile> DiskTier::read_file(const ReadJob& job) {
  ASSIGN_OR_RETURN(const DiskFolder folder, DiskFolder::open(options_.directory, folder_));
  const std::string name = file_name(job.kind, job.key);
  const auto read = [&]() -> Result<StoredFile> {
    const PayloadCheck check = options_.verify ? PayloadCheck::kChecksum : PayloadCheck::kNone;
    ASSIGN_OR_RETURN(auto content, folder.read(name, check, largest_file(options_)));
    RETURN_IF_ERROR(check_owner(content.header, options_.fingerprint, options_.run_tokens));
    return StoredFile{.head = std::move(content.header.head), .payload = std::move(content.payload)};
  };
  try {
    auto file = read();
    if (!file && is_damaged(file.error())) discard(folder, name, file.error().message);
    return file;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable, "no memory to read " + name);
  }
}

void DiskTier::write_one(const WriteJob& job) {
  const Outcome outcome = store(job);
  {
    const std::lock_guard lock(mutex_);
    if (outcome == Outcome::kStored) ++stats_.spills;
    if (outcome == Outcome::kDropped) ++stats_.dropped;
    if (outcome == Outcome::kFailed) ++stats_.failed;
    queued_bytes_ -= job.payload.size();
    queued_.erase(job.head.key);
    write_jobs_.pop_front();  // the end of `job`
  }
  written_.notify_all();
  on_change_();
}

DiskTier::Outcome DiskTier::store(const WriteJob& job) {
  auto folder = DiskFolder::open_or_make(options_.directory, folder_);
  if (!folder) {
    writes_.note(std::unexpected(folder.error()), kCannotWrite);
    return Outcome::kFailed;
  }
  {
    const std::lock_guard lock(mutex_);
    if (folder->was_made()) index_.clear();  // somebody has deleted it, and all that was in it
    if (!index_.can_be_found(job.head.parent)) return Outcome::kDropped;
  }
  const std::uint64_t bytes = file_bytes(job.head, job.payload.size());
  if (!make_room(job.head.parent, bytes)) return Outcome::kDropped;
  auto written = folder->write({.head = job.head, .fingerprint = options_.fingerprint}, job.payload);
  if (!written) {
    writes_.note(std::unexpected(written.error()), kCannotWrite);
    return Outcome::kFailed;
  }
  writes_.note({}, {});
  if (*written == DiskFolder::Written::kByAnother) return Outcome::kDropped;
  const std::lock_guard lock(mutex_);
  const FileTime now = file_time_now();
  index_.add(job.head, bytes, now);
  index_.touch_chain(job.head.key, now);
  return Outcome::kStored;
}

/// Evicts until so many bytes more may be there. False if that cannot be.
bool DiskTier::make_room(const ContentKey& kept, std::uint64_t bytes) {
  for (;;) {
    std::optional<DiskFile> file;
    {
      const std::lock_guard lock(mutex_);
      if (index_.bytes() + bytes <= options_.max_bytes) return true;
      file = index_.take_oldest(kept);
      if (!file) return false;
      ++stats_.evictions;
    }
    remove_evicted(*file);
  }
}

void DiskTier::remove_evicted(const DiskFile& file) {
  const auto folder = DiskFolder::open(options_.directory, file.folder);
  if (!folder) return;  // it is gone, or out of reach
  removals_.note(folder->remove(file.name), "cannot remove from the disk cache; it may become larger than it should");
  if (file.folder != folder_) DiskFolder::remove_if_empty(options_.directory, file.folder);
}

void DiskTier::write_uses(std::size_t most) {
  std::vector<DiskIndex::Use> uses;
  {
    const std::lock_guard lock(mutex_);
    uses = index_.take_uses(most);
  }
  if (uses.empty()) return;
  const auto folder = DiskFolder::open(options_.directory, folder_);
  if (!folder) return;
  for (const DiskIndex::Use& use : uses) {
    const Status status = folder->set_used_at(file_name(use.kind, use.key), use.used_at);
    if (status || status.error().code != ErrorCode::kNotFound) continue;  // at worst a restart knows less
    const std::lock_guard lock(mutex_);
    index_.remove(use.key);
  }
}

void DiskTier::Notice::note(const Status& status, std::string_view message) {
  if (!status && !is_failing_) log_warn(message, {{"why", status.error().message}});
  is_failing_ = !status;
}

}  // namespace redpoll::cache
