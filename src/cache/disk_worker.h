// DiskWorker: the thread of the disk tier, which reads and writes its files, and what it shares with the engine's
// thread. Internal to the disk tier.
//
// It may outlive the tier: a call of the operating system on a disk that does not answer returns when it wants to. So
// all that it touches is its own or shared. Whatever is thrown on it, for want of memory too, costs a file, no more.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cache/disk_folder.h"
#include "cache/disk_index.h"
#include "cache/disk_scan.h"
#include "cache/disk_tier.h"

namespace redpoll::cache {

/// Between the two threads. Nobody has the mutex during I/O.
struct DiskShared {
  struct ReadJob {
    std::uint64_t id = 0;
    StoredKind kind = StoredKind::kRun;
    ContentKey key{};
    Result<StoredFile> file;  // once it is read
  };
  struct WriteJob {
    StoredHead head;
    Payload payload;
  };

  DiskShared(DiskTierOptions tier_options, DiskIndex tier_index)
      : options(std::move(tier_options)), verifies(options.verify), index(std::move(tier_index)) {}
  [[nodiscard]] std::uint64_t max_file_bytes() const { return std::min(options.max_file_bytes, options.max_bytes); }
  [[nodiscard]] bool wants_look() const { return num_looks_wanted > num_looks_done; }  // with the mutex locked

  const DiskTierOptions options;
  std::atomic<bool> verifies;  // payloads
  PayloadPool payloads;        // has a mutex of its own

  mutable std::mutex mutex;  // guards everything below, but for the last two
  std::condition_variable work;
  std::condition_variable written;
  std::condition_variable looked;
  std::condition_variable ended;
  DiskIndex index;
  // A job is a node of these from its question to its answer, so that answering takes no memory.
  std::list<ReadJob> reads;
  std::list<ReadJob> restored;
  std::deque<WriteJob> writes;               // the first one is being written; taken out when it is done
  std::set<ContentKey> queued;               // keys of `writes`
  std::size_t queued_bytes = 0;              // their memory
  std::map<ContentKey, StoredKind> blocked;  // folders were in the place of these files when they were to be written
  bool looks_at_blocked = false;             // the thread shall look whether they still are
  std::uint64_t num_looks_wanted = 0;        // at once, for what others have done to the directory
  std::uint64_t num_looks_done = 0;          // of these: begun after they were wanted, and over
  DiskTierStats stats;                       // but for what the index knows
  std::uint64_t num_jobs = 0;                // that the thread has begun
  std::uint64_t job = 0;                     // of these the one that it is at; 0: none
  bool stopping = false;
  bool is_left_behind = false;  // the tier is gone
  bool has_ended = false;

  std::mutex callback_mutex;  // held during the callback; guards the next
  bool may_call_back = true;
};

class DiskWorker {
 public:
  /// `scan` has started.
  DiskWorker(std::shared_ptr<DiskShared> shared, DiskScan scan, std::function<void()> on_change);

  /// The thread, until it shall stop.
  void run() noexcept;
  /// Evicts until so many bytes more may be there. False if that cannot be.
  [[nodiscard]] bool make_room(const ContentKey& kept, std::uint64_t bytes);

 private:
  enum class Outcome { kStored, kDropped, kBlocked };
  /// Whether something fails: said once, as is that it works again.
  struct Notice {
    std::string_view message;
    std::string_view works_again;
    bool is_failing = false;
  };

  /// When to look again for what others have done to the directory. With the mutex locked, as none of the others is.
  [[nodiscard]] Clock::TimePoint next_look() const;

  /// Of all jobs the most urgent one. True if the tier's owner is to be told. The mutex is locked before and after.
  [[nodiscard]] bool do_next(std::unique_lock<std::mutex>& lock) noexcept;
  // None of these is called with the mutex locked.
  void read_one(DiskShared::ReadJob& job) noexcept;
  void write_one(DiskShared::WriteJob& job) noexcept;
  void write_uses() noexcept;
  void look_at_blocked() noexcept;
  void look_again() noexcept;
  [[nodiscard]] Result<StoredFile> read_file(const DiskShared::ReadJob& job) const;
  [[nodiscard]] Result<Outcome> store(const DiskShared::WriteJob& job);
  [[nodiscard]] bool is_blocked(const DiskFolder& folder, const StoredHead& head);
  void remove_evicted(const DiskFile& file);
  void note(Notice& notice, const Status& status) const noexcept;
  void call_back() const noexcept;

  std::shared_ptr<DiskShared> shared_;
  std::function<void()> on_change_;
  std::string folder_;  // of the fingerprint, in the directory
  DiskScan scan_;
  Clock::TimePoint looked_at_;
  Clock::TimePoint::duration look_took_{};
  Notice reads_{"cannot read from the disk cache", "the disk cache can be read from again"};
  Notice writes_{"cannot write to the disk cache; prompts are kept in memory only until it works again",
                 "the disk cache can be written to again"};
  Notice removals_{"cannot remove from the disk cache; it may become larger than it should",
                   "files can be removed from the disk cache again"};
  Notice looks_{"cannot look at the disk cache; what others do to it is not known",
                "the disk cache can be looked at again"};
};

}  // namespace redpoll::cache
