// DiskTraffic: what goes between the prompt cache and its disk tier. Entries that are new are copied out and written
// behind the requests; entries that are given up are copied out at once, as far as there is room and time; and for a
// sequence about to start, of whose prompt the disk has more than memory, files are read into a new entry while the
// sequence is held back and others run. One restoration at a time, so that those who want the same tokens find them in
// memory when their turn comes, and no more than a few files' bytes are ever on their way. Nobody waits for the disk
// longer than computing takes.
//
// Knows blocks and bytes; no files, which are the tier's, and no rules of scheduling.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/disk_tier.h"
#include "cache/kv_cache.h"
#include "cache/prompt_cache.h"
#include "engine/disk/copy_allowance.h"
#include "engine/disk/restoration.h"
#include "engine/disk/ssd_cache.h"
#include "engine/scheduler.h"
#include "engine/stats/cache_explanation.h"
#include "engine/stats/prompt_pace.h"

namespace redpoll::engine {

/// Of the engine; all must outlive the traffic.
struct DiskTrafficParts {
  cache::KvCache& kv;
  cache::CachePools& pools;
  cache::PromptCache& prompts;
  Scheduler& scheduler;
  const Clock& clock;
};

/// Used by the engine thread only.
class DiskTraffic final : public cache::PromptCacheObserver {
 public:
  /// Opens the tier. `identity`: see LoadedModel. `on_change` is called from the tier's thread when there is something
  /// to take in or room for more to write.
  [[nodiscard]] static Result<std::unique_ptr<DiskTraffic>> open(const SsdCacheOptions& options,
                                                                 const std::string& identity,
                                                                 const DiskTrafficParts& parts,
                                                                 std::function<void()> on_change);
  ~DiskTraffic() override;
  DiskTraffic(const DiskTraffic&) = delete;
  DiskTraffic& operator=(const DiskTraffic&) = delete;

  void on_insert(std::span<const TokenId> tokens) override;
  void on_evict(std::span<const TokenId> tokens, const cache::SequenceCache& cache) override;
  /// The blocks of what is being read.
  bool give_up() override;
  void on_distrust() override { tier_->verify_from_now_on(); }

  /// Before a step is scheduled, in which `num_places` sequences may start: takes in what was read, and holds back
  /// those for which more is on disk than in memory.
  void restore(int num_places);
  /// Copies out a file's bytes, if nothing has run for a while and the disk keeps up: who asks again at once shall not
  /// share the processor with what is written. True if there is more to do right now.
  bool write_when_idle();
  /// How fast the engine computes what the disk might have.
  void note_step(const StepRecord& step) { pace_.add(step); }
  /// After a step: a file's bytes now and then. More would take time from those who wait for their next token.
  void write_between_steps();
  /// For how long an engine with nothing to run may wait for somebody to wake it; none: for as long as it likes.
  [[nodiscard]] std::optional<std::chrono::milliseconds> before_next_look() const;
  /// What is in the cache's blocks is not known any more.
  void abort();
  /// Writes all that is to be written, as far as SsdCacheOptions::flush_limit allows.
  void flush() noexcept;

  /// Files that are being read into blocks which nobody else knows of.
  [[nodiscard]] bool is_restoring() const { return restoration_.has_value(); }
  [[nodiscard]] SsdCacheStats stats() const;
  void explain(std::span<const TokenId> prompt, CacheExplanation& explanation) const;

 private:
  /// Tokens of an entry and how much of it is known to be on its way to the disk.
  struct Spill {
    std::vector<TokenId> tokens;
    int num_runs = 0;
    cache::ContentKey parent{};  // key of the last of them
  };
  enum class SpillResult { kDone, kNoRoom, kMore, kFailed /* or a folder is in the place of a file */ };

  DiskTraffic(const SsdCacheOptions& options, const DiskTrafficParts& parts);
  [[nodiscard]] std::string fingerprint(const std::string& identity) const;
  [[nodiscard]] bool disk_keeps_up() const;
  /// Copies out about `max_bytes` of what is to be written; true if there is more, and room for it.
  bool write_behind(std::int64_t max_bytes);
  [[nodiscard]] bool write_all();
  [[nodiscard]] bool write_spills(Clock::TimePoint deadline);
  [[nodiscard]] cache::DiskTier::Match find(std::span<const TokenId> tokens, int most) const;
  void consider(Sequence& sequence);
  [[nodiscard]] bool begin(cache::DiskTier::Match match, int num_in_memory);
  [[nodiscard]] std::vector<cache::StoredHead> files_of(const cache::DiskTier::Match& match,
                                                        const cache::SequenceCache& cache, int num_lent_runs) const;
  void ask_for_files();
  [[nodiscard]] bool take_restored();
  [[nodiscard]] Clock::TimePoint deadline() const;
  [[nodiscard]] std::chrono::milliseconds before_deadline() const;
  void stop_waiting();
  [[nodiscard]] Status try_to_fill(const cache::StoredFile& file);
  [[nodiscard]] Status fill(const cache::StoredFile& file);
  void finish();
  void end_restoration();
  /// Of what a copy has thrown: says so, once until one works again. Copies are optional: none fails a step.
  void report_failed_copy() noexcept;
  [[nodiscard]] SpillResult try_to_spill(Spill& spill, const cache::SequenceCache& cache,
                                         std::int64_t& budget) noexcept;
  [[nodiscard]] SpillResult spill(Spill& spill, const cache::SequenceCache& cache, std::int64_t& budget);
  [[nodiscard]] SpillResult write(cache::StoredHead head, const cache::SequenceCache& cache, std::int64_t& budget);
  [[nodiscard]] std::size_t missing_bytes(Spill spill, const cache::SequenceCache& cache) const;
  [[nodiscard]] cache::StoredHead run_of(const Spill& spill) const;
  [[nodiscard]] cache::StoredHead snapshot_of(const Spill& spill, const cache::SequenceCache& cache) const;
  [[nodiscard]] std::size_t bytes_of(const std::vector<cache::StoredPart>& parts) const;
  [[nodiscard]] std::size_t bytes_of(const cache::StoredPart& part) const;
  [[nodiscard]] static std::span<const cache::BlockId> blocks_of(const cache::StoredPart& part,
                                                                 const cache::SequenceCache& cache);
  [[nodiscard]] int run_tokens() const { return options_.run_blocks * parts_.pools.block_tokens(); }

  SsdCacheOptions options_;
  DiskTrafficParts parts_;
  std::unique_ptr<cache::DiskTier> tier_;
  std::string fingerprint_;
  cache::ContentKey root_{};
  bool can_resume_anywhere_ = false;      // no window, no state: only then a cache is whole without a snapshot
  int full_group_ = -1;                   // that sees all tokens; -1: none
  std::vector<std::size_t> block_bytes_;  // by group
  Clock::TimePoint ran_at_;               // the last step
  Clock::TimePoint written_at_;           // between steps
  CopyAllowance evictions_;
  std::deque<Spill> spills_;  // oldest first
  std::optional<Restoration> restoration_;
  PromptPace pace_;
  std::uint64_t next_read_ = 0;
  std::uint64_t overdue_job_ = 0;  // of the tier, that nobody waits for any more; 0: none
  double last_restore_ms_ = 0;
  std::uint64_t num_dropped_ = 0, num_given_up_ = 0;
  bool has_reported_slow_disk_ = false, has_reported_failed_copy_ = false;
};

}  // namespace redpoll::engine
