#include "cache/disk_tier.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"
#include "cache/disk_scan.h"
#include "cache/disk_worker.h"

namespace redpoll::cache {
namespace {

// For the file in progress when the tier ends: longer than a disk takes that works.
constexpr std::chrono::seconds kLastFileLimit{1};

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(DiskTierOptions options, std::function<void()> on_change) {
  const DiskIndexOptions books{.fingerprint = options.fingerprint,
                               .run_tokens = options.run_tokens,
                               .runs_have_data = options.runs_have_data,
                               .can_resume_anywhere = options.can_resume_anywhere};
  DiskScan scan(options);
  ASSIGN_OR_RETURN(DiskChanges found, scan.start());
  DiskIndex index(books);
  std::move(found).apply_to(index);
  auto shared = std::make_shared<DiskShared>(std::move(options), std::move(index));
  auto worker = std::make_unique<DiskWorker>(shared, std::move(scan), std::move(on_change));
  // What was here before may be more than is allowed now.
  static_cast<void>(worker->make_room({}, 0));
  std::thread thread([own = std::move(worker)] { own->run(); });
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(shared), std::move(thread)));
}

DiskTier::DiskTier(std::shared_ptr<DiskShared> shared, std::thread thread)
    : shared_(std::move(shared)), thread_(std::move(thread)) {}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(shared_->callback_mutex);
    shared_->may_call_back = false;
  }
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->work.notify_one();
  if (shared_->ended.wait_for(lock, kLastFileLimit, [this] { return shared_->has_ended; })) {
    lock.unlock();
    thread_.join();
    return;
  }
  shared_->is_left_behind = true;
  lock.unlock();
  thread_.detach();
  try {
    log_warn("the disk of the disk cache does not answer; the thread that waits for it is left behind",
             {{"directory", shared_->options.directory.string()}});
  } catch (const std::exception&) {
    return;  // no memory to say so
  }
}

DiskTier::Match DiskTier::find(std::span<const TokenId> tokens, int most) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->index.find(tokens, most);
}

ForeignFiles::Beginning DiskTier::find_elsewhere(std::span<const TokenId> tokens) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->index.foreign().longest_beginning(tokens);
}

bool DiskTier::holds(StoredKind kind, const ContentKey& key) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->index.holds(kind, key) || shared_->queued.contains(key);
}

bool DiskTier::is_blocked(const ContentKey& key) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->blocked.contains(key)) return false;
    shared_->looks_at_blocked = true;
  }
  shared_->work.notify_one();
  return true;
}

bool DiskTier::write(StoredHead head, Payload payload) {
  CHECK(head.key == key_of(head), "a file is named by its content");
  const std::size_t memory = memory_of(payload);
  std::set<ContentKey> key = {head.key};
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->index.holds(head.kind, head.key) || shared_->queued.contains(head.key)) return true;
    if (memory > shared_->options.max_queued_bytes - shared_->queued_bytes ||
        header_bytes(head) + payload.size() > shared_->max_file_bytes()) {
      ++shared_->stats.dropped;
      return false;
    }
    shared_->writes.push_back({.head = std::move(head), .payload = std::move(payload)});
    shared_->queued.merge(key);
    shared_->queued_bytes += memory;
  }
  shared_->work.notify_one();
  return true;
}

void DiskTier::read(std::uint64_t id, StoredKind kind, const ContentKey& key) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->reads.push_back({.id = id, .kind = kind, .key = key, .file = {}});
  }
  shared_->work.notify_one();
}

void DiskTier::cancel_reads() {
  std::list<DiskShared::ReadJob> cancelled;  // freed without the mutex
  const std::lock_guard lock(shared_->mutex);
  cancelled.swap(shared_->reads);
}

std::uint64_t DiskTier::job() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->job;
}

std::vector<DiskTier::Restored> DiskTier::take_restored() {
  const std::lock_guard lock(shared_->mutex);
  std::vector<Restored> restored;
  restored.reserve(shared_->restored.size());
  for (DiskShared::ReadJob& job : shared_->restored) restored.push_back({.id = job.id, .file = std::move(job.file)});
  shared_->restored.clear();
  return restored;
}

void DiskTier::touch(const Match& match) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->index.touch(match, file_time_now());
  }
  shared_->work.notify_one();
}

void DiskTier::verify_from_now_on() { shared_->verifies = true; }

std::optional<Payload> DiskTier::room_for(std::size_t num_bytes) {
  const std::size_t room = shared_->options.max_queued_bytes - queued_bytes();  // meanwhile it only grows
  const std::size_t bytes = allocated_bytes(num_bytes);
  if (bytes > room) return std::nullopt;
  shared_->payloads.keep_at_most(room - bytes);
  return shared_->payloads.take(num_bytes);
}

void DiskTier::give_back(Payload payload) noexcept {
  const std::size_t taken = queued_bytes() + shared_->payloads.spare_bytes();
  if (taken + memory_of(payload) <= shared_->options.max_queued_bytes) shared_->payloads.give_back(std::move(payload));
}

std::size_t DiskTier::queued_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queued_bytes;
}

bool DiskTier::look_again(Clock::TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  const std::uint64_t wanted = ++shared_->num_looks_wanted;
  shared_->work.notify_one();
  return shared_->looked.wait_until(lock, deadline, [&] { return shared_->num_looks_done >= wanted; });
}

bool DiskTier::flush(Clock::TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->written.wait_until(lock, deadline, [this] { return shared_->writes.empty(); });
}

DiskTierStats DiskTier::stats() const {
  const std::lock_guard lock(shared_->mutex);
  DiskTierStats stats = shared_->stats;
  stats.entries = shared_->index.num_entries();
  stats.bytes = shared_->index.bytes();
  stats.max_bytes = shared_->options.max_bytes;
  stats.queued_bytes = shared_->queued_bytes;
  return stats;
}

}  // namespace redpoll::cache
