// DiskTier: blocks of the prompt cache in files, so that what memory gives up, or a restart forgets, can be had back
// for the price of reading it. A store of files named by their content (disk_format.h), the books of what is there
// (disk_index.h), and the thread that reads and writes (disk_worker.h). Moves bytes that the engine thread has copied
// out of the cache or will copy in; knows neither blocks nor the prompt cache's tree.
//
// Nothing of it may ever fail a request: what cannot be read is a miss, what cannot be written is dropped, and a log
// line says so once. Several servers may use one directory, and anybody may remove files there: the thread looks at it
// again and again, so that each finds what the others have written and max_bytes holds for all of them together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cache/disk_folder.h"
#include "cache/disk_format.h"
#include "cache/disk_index.h"

namespace redpoll::cache {

struct DiskTierOptions {
  std::filesystem::path directory;          // made if it is not there; a folder in it for each fingerprint
  std::uint64_t max_bytes = 0;              // of all files of all fingerprints
  std::uint64_t max_file_bytes = kAnySize;  // of one with its header; larger ones are neither written nor read
  bool verify = false;                      // payloads against their checksums when they are read; headers always are
  std::string fingerprint;                  // of model and layout: 64 lower-case hex digits, as sha256_hex gives
  int run_tokens = 0;                       // tokens of one run
  bool runs_have_data = true;               // a group sees all tokens
  bool can_resume_anywhere = true;          // no windows, no states; only with runs_have_data
  std::size_t max_queued_bytes = 0;         // memory of payloads that wait to be written and of spare ones
  /// What others do to the directory is known after so long, or, where looking takes more than a tenth of that, later.
  std::chrono::milliseconds look_interval{5'000};
};

struct DiskTierStats {
  int entries = 0;          // files of this fingerprint
  std::uint64_t bytes = 0;  // of all fingerprints, as counted towards max_bytes
  std::uint64_t max_bytes = 0;
  std::size_t queued_bytes = 0;
  std::uint64_t restores = 0;   // files read
  std::uint64_t spills = 0;     // files written, or found to have been written by another server
  std::uint64_t evictions = 0;  // files removed to make room
  std::uint64_t dropped = 0;    // writes refused: no room in the queue or on disk, or a parent that is not there
  std::uint64_t failed = 0;     // reads and writes that the operating system or a damaged file failed
};

struct DiskShared;

/// Everything but `open` is for one thread, the engine's, and returns without waiting for I/O, `flush` and
/// `look_again` apart.
class DiskTier {
 public:
  /// Reads the headers of all files of the fingerprint, removes what is damaged, foreign or half written, and starts
  /// the thread. `on_change` is called on that thread whenever a read has completed, a write has left the queue or
  /// others have added or removed files; it must not call back. An Error when the directory cannot be made, listed,
  /// written to or trusted: see DiskFolder.
  [[nodiscard]] static Result<std::unique_ptr<DiskTier>> open(DiskTierOptions options, std::function<void()> on_change);
  /// Waits for the file that is being read or written, but only for a second: a disk that does not answer keeps its
  /// thread, which ends when it does. What is queued is lost, so `flush` first. `on_change` is not called any more.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  using Match = DiskMatch;
  /// What is on disk of the longest beginning of the tokens, `most` of them at most, that can be resumed.
  [[nodiscard]] Match find(std::span<const TokenId> tokens, int most) const;
  /// Which other fingerprint has most of the tokens on disk: where this one finds nothing, they were computed by
  /// another model or with other options. Whole runs only.
  [[nodiscard]] ForeignFiles::Beginning find_elsewhere(std::span<const TokenId> tokens) const;
  /// On disk, or on its way there.
  [[nodiscard]] bool holds(StoredKind kind, const ContentKey& key) const;
  /// A folder was in the file's place when that was last looked at, which is done again for whoever asks.
  [[nodiscard]] bool is_blocked(const ContentKey& key);
  /// Queues a file; true as well if it is held already. False if more than max_queued_bytes would be waiting, or the
  /// file would be larger than max_file_bytes or max_bytes. Parents go first: a file whose parent is not there when its
  /// turn comes could not be found, and is dropped.
  [[nodiscard]] bool write(StoredHead head, Payload payload);
  /// Queues, before all writes. The answer comes in `take_restored`, unless the read is cancelled before its turn.
  void read(std::uint64_t id, StoredKind kind, const ContentKey& key);
  /// Of all reads whose turn has not come.
  void cancel_reads();
  /// What the thread is at: a number that nothing before and after it has; 0: nothing.
  [[nodiscard]] std::uint64_t job() const;

  struct Restored {
    std::uint64_t id = 0;
    Result<StoredFile> file;  // kNotFound: it is not there any more
  };
  /// What was read since the last call, in the order of the calls of `read`.
  [[nodiscard]] std::vector<Restored> take_restored();

  /// Makes these files the most recently used, the first run most of all, so that what is oldest has nothing that
  /// builds on it. Files' times carry this over restarts.
  void touch(const Match& match);
  /// Payloads are checked as with DiskTierOptions::verify: something that was read may have been damaged.
  void verify_from_now_on();
  /// For a payload of that size to be written, which `write` takes; none if that would not have room to wait.
  [[nodiscard]] std::optional<Payload> room_for(std::size_t num_bytes);
  /// What was read and used, for its memory.
  void give_back(Payload payload) noexcept;
  /// Memory of payloads waiting to be written, the one being written included.
  [[nodiscard]] std::size_t queued_bytes() const;
  /// Looks at once for what others have done to the directory, and waits for that; false if the deadline comes first.
  [[nodiscard]] bool look_again(Clock::TimePoint deadline);
  /// Waits until all writes are done; false if the deadline comes first.
  [[nodiscard]] bool flush(Clock::TimePoint deadline);
  [[nodiscard]] DiskTierStats stats() const;

 private:
  DiskTier(std::shared_ptr<DiskShared> shared, std::thread thread);

  std::shared_ptr<DiskShared> shared_;
  std::thread thread_;
};

}  // namespace redpoll::cache
