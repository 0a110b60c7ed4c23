#include "cache/disk_worker.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "cache/disk_scan.h"

namespace redpoll::cache {
namespace {

// Times of use that are written before the thread looks for something more urgent.
constexpr std::size_t kUsesAtOnce = 64;

// So many times what a look took pass before the next one.
constexpr int kRestAfterLook = 10;
constexpr std::chrono::minutes kLongestRest{1};

std::uint64_t file_bytes(const StoredHead& head, std::size_t payload_bytes) {
  return std::uint64_t{header_bytes(head)} + payload_bytes;
}

/// What is being handled. The texts are short enough to take no memory.
Error thrown() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kUnavailable, "no memory", {}};
  } catch (const std::exception& exception) {
    try {
      return {ErrorCode::kInternal, exception.what(), {}};
    } catch (const std::bad_alloc&) {
      return {ErrorCode::kUnavailable, "no memory", {}};
    }
  } catch (...) {
    return {ErrorCode::kInternal, "exception", {}};
  }
}

/// What the job returns, or what it throws as an Error.
template <typename Job>
auto attempt(const Job& job) noexcept -> decltype(job()) {
  try {
    return job();
  } catch (...) {
    return std::unexpected(thrown());
  }
}

}  // namespace

DiskWorker::DiskWorker(std::shared_ptr<DiskShared> shared, DiskScan scan, std::function<void()> on_change)
    : shared_(std::move(shared)),
      on_change_(std::move(on_change)),
      folder_(folder_name(shared_->options.fingerprint)),
      scan_(std::move(scan)),
      looked_at_(std::chrono::steady_clock::now()) {}

void DiskWorker::run() noexcept {
  DiskShared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.work.wait_until(lock, next_look(), [&] {
      return shared.stopping || !shared.reads.empty() || !shared.writes.empty() || shared.looks_at_blocked ||
             shared.wants_look() || shared.index.has_uses();
    });
    if (shared.stopping) break;
    shared.job = ++shared.num_jobs;
    const bool is_news = do_next(lock);
    shared.job = 0;
    if (!is_news) continue;
    lock.unlock();
    call_back();
    lock.lock();
  }
  while (shared.index.has_uses() && !shared.is_left_behind) {
    lock.unlock();
    write_uses();
    lock.lock();
  }
  shared.has_ended = true;
  shared.ended.notify_all();
}

bool DiskWorker::do_next(std::unique_lock<std::mutex>& lock) noexcept {
  DiskShared& shared = *shared_;
  std::list<DiskShared::ReadJob> read;
  bool is_news = true;
  if (!shared.reads.empty()) {
    read.splice(read.end(), shared.reads, shared.reads.begin());
    lock.unlock();
    read_one(read.front());
  } else if (shared.wants_look() || std::chrono::steady_clock::now() >= next_look()) {
    lock.unlock();
    look_again();
    is_news = false;  // of which it tells by itself
  } else if (!shared.writes.empty()) {
    DiskShared::WriteJob& job = shared.writes.front();  // stays where it is when others are put behind it
    lock.unlock();
    write_one(job);
  } else {
    const bool looks_at_blocked = std::exchange(shared.looks_at_blocked, false);
    lock.unlock();
    if (looks_at_blocked) {
      look_at_blocked();
    } else {
      write_uses();
    }
    is_news = false;
  }
  lock.lock();
  shared.restored.splice(shared.restored.end(), read);
  return is_news;
}

void DiskWorker::read_one(DiskShared::ReadJob& job) noexcept {
  job.file = attempt([&] { return read_file(job); });
  const ErrorCode code = job.file ? ErrorCode{} : job.file.error().code;
  {
    const std::lock_guard lock(shared_->mutex);
    if (job.file) ++shared_->stats.restores;
    if (!job.file && code != ErrorCode::kNotFound) ++shared_->stats.failed;
    if (!job.file && code != ErrorCode::kUnavailable) {
      // What stays in the books for want of memory is found missing once more.
      static_cast<void>(attempt([&]() -> Status {
        shared_->index.remove(job.key);
        return {};
      }));
    }
  }
  if (!job.file && code == ErrorCode::kIo) {
    static_cast<void>(attempt([&]() -> Status {
      const std::string name = file_name(job.kind, job.key);
      ASSIGN_OR_RETURN(const DiskFolder folder, DiskFolder::open(shared_->options.directory, folder_));
      if (folder.read_header(name)) scan_.leave_out(name);  // else it may be the folder, which may come back
      return {};
    }));
  }
  if (job.file) {
    note(reads_, {});
  } else if (code == ErrorCode::kIo || code == ErrorCode::kUnavailable || code == ErrorCode::kInternal) {
    note(reads_, attempt([&]() -> Status { return std::unexpected(job.file.error()); }));
  }
}

Result<StoredFile> DiskWorker::read_file(const DiskShared::ReadJob& job) const {
  const DiskTierOptions& options = shared_->options;
  ASSIGN_OR_RETURN(const DiskFolder folder, DiskFolder::open(options.directory, folder_));
  const std::string name = file_name(job.kind, job.key);
  const auto read = [&]() -> Result<StoredFile> {
    const PayloadCheck check = shared_->verifies ? PayloadCheck::kChecksum : PayloadCheck::kNone;
    ASSIGN_OR_RETURN(auto content, folder.read(name, check, shared_->payloads, shared_->max_file_bytes()));
    RETURN_IF_ERROR(check_owner(content.header, options.fingerprint, options.run_tokens));
    return StoredFile{.head = std::move(content.header.head), .payload = std::move(content.payload)};
  };
  auto file = read();
  if (!file && is_damaged(file.error())) discard(folder, name, file.error().message);
  return file;
}

void DiskWorker::write_one(DiskShared::WriteJob& job) noexcept {
  const Result<Outcome> outcome = attempt([&] { return store(job); });
  if (!outcome) note(writes_, attempt([&]() -> Status { return std::unexpected(outcome.error()); }));
  const std::size_t memory = memory_of(job.payload);
  shared_->payloads.give_back(std::move(job.payload));
  const std::lock_guard lock(shared_->mutex);
  if (!outcome || *outcome == Outcome::kBlocked) {
    ++shared_->stats.failed;
  } else if (*outcome == Outcome::kStored) {
    ++shared_->stats.spills;
  } else {
    ++shared_->stats.dropped;
  }
  shared_->queued_bytes -= memory;
  shared_->queued.erase(job.head.key);
  shared_->writes.pop_front();  // the end of `job`
  shared_->written.notify_all();
}

Result<DiskWorker::Outcome> DiskWorker::store(const DiskShared::WriteJob& job) {
  const DiskTierOptions& options = shared_->options;
  ASSIGN_OR_RETURN(const DiskFolder folder, DiskFolder::open_or_make(options.directory, folder_));
  {
    const std::lock_guard lock(shared_->mutex);
    if (folder.was_made()) shared_->index.clear();  // somebody has deleted it, and all that was in it
    if (!shared_->index.can_be_found(job.head.parent)) return Outcome::kDropped;
  }
  if (is_blocked(folder, job.head)) return Outcome::kBlocked;
  const std::uint64_t bytes = file_bytes(job.head, job.payload.size());
  if (!make_room(job.head.parent, bytes)) return Outcome::kDropped;
  ASSIGN_OR_RETURN(const DiskFolder::Written written,
                   folder.write({.head = job.head, .fingerprint = options.fingerprint}, job.payload));
  note(writes_, {});
  if (written == DiskFolder::Written::kByAnother) return Outcome::kDropped;
  const std::lock_guard lock(shared_->mutex);
  const FileTime now = file_time_now();
  shared_->index.add(job.head, bytes, now);
  shared_->index.touch_chain(job.head.key, now);
  return Outcome::kStored;
}

/// By a folder, which is said when it is found.
bool DiskWorker::is_blocked(const DiskFolder& folder, const StoredHead& head) {
  const auto blocker = folder.blocker(file_name(head.kind, head.key));
  {
    const std::lock_guard lock(shared_->mutex);
    if (!blocker) {
      shared_->blocked.erase(head.key);
      return false;
    }
    if (!shared_->blocked.emplace(head.key, head.kind).second) return true;
  }
  log_warn("a folder is in the place of a file of the disk cache; what belongs there is not kept; remove it",
           {{"path", blocker->string()}});
  return true;
}

/// Forgets those that nothing blocks any more. If it fails, who asks for one of them makes it look again.
void DiskWorker::look_at_blocked() noexcept {
  static_cast<void>(attempt([&]() -> Status {
    std::map<ContentKey, StoredKind> blocked;
    {
      const std::lock_guard lock(shared_->mutex);
      blocked = shared_->blocked;
    }
    const auto folder = DiskFolder::open(shared_->options.directory, folder_);
    if (!folder && folder.error().code != ErrorCode::kNotFound) return std::unexpected(folder.error());
    std::erase_if(blocked,
                  [&](const auto& file) { return folder && folder->blocker(file_name(file.second, file.first)); });
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [key, kind] : blocked) shared_->blocked.erase(key);
    return {};
  }));
}

/// Before something is written as often as that costs no more than a tenth of the time: what others write meanwhile is
/// beyond max_bytes.
Clock::TimePoint DiskWorker::next_look() const {
  const auto rest = std::min<Clock::TimePoint::duration>(kRestAfterLook * look_took_, kLongestRest);
  return looked_at_ + (shared_->writes.empty() ? std::max<decltype(rest)>(shared_->options.look_interval, rest) : rest);
}

/// For what others have done to the directory, which may be more than it should hold now. Where that cannot be seen,
/// what was known stays.
void DiskWorker::look_again() noexcept {
  const Clock::TimePoint started_at = std::chrono::steady_clock::now();
  std::uint64_t num_wanted = 0;
  bool is_news = false;
  const Status looked = attempt([&]() -> Status {
    std::vector<DiskIndex::Known> known;
    {
      const std::lock_guard lock(shared_->mutex);
      num_wanted = shared_->num_looks_wanted;
      known = shared_->index.known();
    }
    ASSIGN_OR_RETURN(DiskChanges changes, scan_.look(known));
    {
      const std::lock_guard lock(shared_->mutex);
      DiskIndex& index = shared_->index;
      const auto sizes = [&index] { return std::pair(index.num_entries(), index.bytes()); };
      const auto before = sizes();
      std::move(changes).apply_to(index);
      is_news = sizes() != before;
    }
    static_cast<void>(make_room({}, 0));
    return {};
  });
  note(looks_, looked);
  looked_at_ = std::chrono::steady_clock::now();
  look_took_ = looked_at_ - started_at;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->num_looks_done = num_wanted;
    shared_->looked.notify_all();
  }
  if (is_news) call_back();
}

bool DiskWorker::make_room(const ContentKey& kept, std::uint64_t bytes) {
  for (;;) {
    std::optional<DiskFile> file;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->index.bytes() + bytes <= shared_->options.max_bytes) return true;
      file = shared_->index.take_oldest(kept);
      if (!file) return false;
      ++shared_->stats.evictions;
    }
    remove_evicted(*file);
  }
}

void DiskWorker::remove_evicted(const DiskFile& file) {
  const std::filesystem::path& directory = shared_->options.directory;
  const auto folder = DiskFolder::open(directory, file.folder);
  if (!folder) return;  // it is gone, or out of reach
  note(removals_, folder->remove(file.name));
  if (file.folder != folder_) DiskFolder::remove_if_empty(directory, file.folder);
}

/// The next of them. What fails is not tried again: at worst a restart knows less.
void DiskWorker::write_uses() noexcept {
  bool is_news = false;
  const Status written = attempt([&]() -> Status {
    std::vector<DiskIndex::Use> uses;
    {
      const std::lock_guard lock(shared_->mutex);
      uses = shared_->index.take_uses(kUsesAtOnce);
    }
    ASSIGN_OR_RETURN(const DiskFolder folder, DiskFolder::open(shared_->options.directory, folder_));
    for (const DiskIndex::Use& use : uses) {
      const Status status = folder.set_used_at(file_name(use.kind, use.key), use.used_at);
      if (status || status.error().code != ErrorCode::kNotFound) continue;
      const std::lock_guard lock(shared_->mutex);
      shared_->index.remove(use.key);
      is_news = true;
    }
    return {};
  });
  if (is_news) call_back();
  if (!written && written.error().code == ErrorCode::kUnavailable) {
    const std::lock_guard lock(shared_->mutex);
    shared_->index.drop_uses();
  }
}

void DiskWorker::note(Notice& notice, const Status& status) const noexcept {
  const bool is_news = notice.is_failing != !status;
  notice.is_failing = !status;
  if (!is_news) return;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->is_left_behind) return;  // the program may be ending
  }
  static_cast<void>(attempt([&]() -> Status {
    if (status) {
      log_info(notice.works_again);
    } else {
      log_warn(notice.message, {{"why", status.error().message}});
    }
    return {};
  }));
}

void DiskWorker::call_back() const noexcept {
  const std::lock_guard lock(shared_->callback_mutex);
  if (!shared_->may_call_back) return;
  static_cast<void>(attempt([&]() -> Status {
    on_change_();
    return {};
  }));
}

}  // namespace redpoll::cache
