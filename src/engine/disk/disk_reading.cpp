// What DiskTraffic reads: which sequences are held back for what is on disk, and how files become an entry.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/disk/disk_traffic.h"

namespace redpoll::engine {
namespace {

/// Of files that are read or wait to be taken in.
constexpr std::size_t kBytesReadAhead = std::size_t{24} << 20U;
constexpr std::chrono::milliseconds kBeforeLookingAtTheDisk{1'000};

}  // namespace

void DiskTraffic::restore(int num_places) {
  const bool has_come = take_restored();
  if (restoration_ && parts_.clock.now() >= deadline()) {
    if (has_come) {  // it was not the disk that took so long
      restoration_->patient_until = parts_.clock.now() + options_.restore_slack;
    } else {
      stop_waiting();
    }
  }
  if (overdue_job_ != 0 && tier_->job() == overdue_job_) return;
  for (Sequence* sequence : parts_.scheduler.waiting()) {
    if (num_places <= 0) break;
    if (!parts_.scheduler.may_start(*sequence)) continue;
    if (!sequence->has_asked_disk) consider(*sequence);
    if (!sequence->waits_for_disk) --num_places;
  }
}

/// By when the next file must be there. Reading is worth waiting for as long as it is faster than computing the same
/// tokens; so whatever the disk does, one who waits for it has its answer later than without it by this slack and the
/// time in which a file's tokens are computed, and where caches cannot be resumed anywhere by what computing all takes.
Clock::TimePoint DiskTraffic::deadline() const {
  const Clock::TimePoint computed = restoration_->started_at + pace_.time_for(restoration_->num_spared());
  return std::max(computed + options_.restore_slack, restoration_->patient_until);
}

std::chrono::milliseconds DiskTraffic::before_deadline() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline() - parts_.clock.now());
  return std::clamp(left, std::chrono::milliseconds(0), kBeforeLookingAtTheDisk);
}

/// Nobody waits for the disk until it is done with what it is at: who asked now would wait for that, too.
void DiskTraffic::stop_waiting() {
  tier_->cancel_reads();
  overdue_job_ = tier_->job();
  ++num_given_up_;
  if (!std::exchange(has_reported_slow_disk_, true)) {
    log_warn("what the disk cache has takes longer to read than to compute; the rest is computed",
             {{"files_read", std::to_string(restoration_->num_filled)},
              {"files", std::to_string(restoration_->files.size())}});
  }
  finish();
}

/// What the disk has of the tokens, as far as memory may keep it.
cache::DiskTier::Match DiskTraffic::find(std::span<const TokenId> tokens, int most) const {
  cache::DiskTier::Match match = tier_->find(tokens, most);
  const int num_tokens = static_cast<int>(match.tokens.size());
  int kept = parts_.prompts.most_kept(num_tokens);
  if (kept == num_tokens) return match;
  if (can_resume_anywhere_) kept -= kept % run_tokens();  // or another file would go on beyond it
  return tier_->find(tokens, std::min(kept, most));
}

/// Whether the disk has more for the sequence than memory.
void DiskTraffic::consider(Sequence& sequence) {
  const Scheduler& scheduler = parts_.scheduler;
  if (!scheduler.may_use_prompt_cache(sequence)) return;
  if (!restoration_ && !scheduler.has_room_to_start(sequence)) return;
  const int most = sequence.num_tokens() - 1;
  cache::DiskTier::Match match = find(sequence.tokens, most);
  const int num_in_memory = parts_.prompts.find(sequence.tokens, most);
  if (match.num_tokens < num_in_memory + options_.least_tokens) {
    sequence.has_asked_disk = true;
  } else if (restoration_) {
    sequence.waits_for_disk = true;  // until that is there: maybe it is what this one wants
  } else {
    sequence.has_asked_disk = true;
    sequence.waits_for_disk = begin(std::move(match), num_in_memory);
  }
}

/// False if there is no room for it.
bool DiskTraffic::begin(cache::DiskTier::Match match, int num_in_memory) {
  const int num_tokens = static_cast<int>(match.tokens.size());
  std::optional<cache::SequenceCache> cache;
  int num_lent_runs = 0;
  do {
    const cache::PromptCache::Lender lender = parts_.prompts.longest(match.tokens);
    num_lent_runs = std::min(lender.num_tokens / run_tokens(), static_cast<int>(match.runs.size()));
    cache = cache::SequenceCache::to_be_filled(parts_.pools, num_tokens, lender.cache, num_lent_runs * run_tokens());
  } while (!cache && parts_.prompts.evict());
  if (!cache) return false;
  tier_->touch(match);
  std::vector<cache::StoredHead> files = files_of(match, *cache, num_lent_runs);
  CHECK(!files.empty(), "memory lends less than all that the disk has more than it");
  restoration_.emplace(Restoration{.cache = std::move(*cache),
                                   .tokens = std::move(match.tokens),
                                   .files = std::move(files),
                                   .num_wanted = match.num_tokens,
                                   .num_in_memory = num_in_memory,
                                   .num_lent_runs = num_lent_runs,
                                   .first_read = next_read_,
                                   .started_at = parts_.clock.now()});
  ask_for_files();
  return true;
}

/// But for the first `num_lent_runs`.
std::vector<cache::StoredHead> DiskTraffic::files_of(const cache::DiskTier::Match& match,
                                                     const cache::SequenceCache& cache, int num_lent_runs) const {
  std::vector<cache::StoredHead> files;
  Spill walk{.tokens = match.tokens, .parent = root_};
  for (const int num_runs = static_cast<int>(match.tokens.size()) / run_tokens(); walk.num_runs < num_runs;) {
    cache::StoredHead run = run_of(walk);
    walk.parent = run.key;
    if (walk.num_runs++ >= num_lent_runs && !run.parts.empty()) files.push_back(std::move(run));
  }
  if (match.snapshot) files.push_back(snapshot_of(walk, cache));
  return files;
}

void DiskTraffic::ask_for_files() {
  Restoration& now = *restoration_;
  std::size_t bytes = 0;  // of memory, read or waiting to be taken in
  for (std::size_t i = now.num_filled; i < now.num_asked; ++i) bytes += allocated_bytes(bytes_of(now.files[i].parts));
  for (; now.num_asked < now.files.size(); ++now.num_asked) {
    const cache::StoredHead& file = now.files[now.num_asked];
    const std::size_t more = allocated_bytes(bytes_of(file.parts));
    if (bytes > 0 && bytes + more > std::min(kBytesReadAhead, options_.max_queued_bytes)) return;
    tier_->read(next_read_++, file.kind, file.key);
    bytes += more;
  }
}

/// Whether there was anything of what is waited for.
bool DiskTraffic::take_restored() {
  bool has_come = false;
  for (cache::DiskTier::Restored& restored : tier_->take_restored()) {
    if (!restoration_ || restored.id < restoration_->first_read) continue;  // of one that was given up
    has_come = true;
    const Status filled = restored.file ? try_to_fill(*restored.file) : std::unexpected(restored.file.error());
    if (restored.file) tier_->give_back(std::move(restored.file->payload));
    if (!filled) {
      if (filled.error().code != ErrorCode::kNotFound) {
        log_warn("a file of the disk cache is not used", {{"reason", filled.error().message}});
      }
      finish();  // what was asked for beyond it is read all the same: it may be damaged, too, and is removed then
      continue;
    }
    ++restoration_->num_filled;
    if (restoration_->is_whole()) {
      has_reported_slow_disk_ = false;
      finish();
    } else {
      ask_for_files();
    }
  }
  return has_come;
}

Status DiskTraffic::try_to_fill(const cache::StoredFile& file) {
  try {
    return fill(file);
  } catch (...) {
    report_failed_copy();
    return fail(ErrorCode::kNotFound, "");  // said
  }
}

/// Writes what the file holds to the blocks that wait for it.
Status DiskTraffic::fill(const cache::StoredFile& file) {
  const cache::SequenceCache& cache = restoration_->cache;
  const cache::StoredHead& awaited = restoration_->files[restoration_->num_filled];
  if (file.head != awaited || file.payload.size() != bytes_of(awaited.parts)) {
    return fail(ErrorCode::kCorruptFile, "it does not hold what its name says, as this model's cache has it");
  }
  std::span<const std::byte> rest = file.payload;
  for (const cache::StoredPart& part : awaited.parts) {
    parts_.kv.write_blocks(part.group, blocks_of(part, cache), rest.first(bytes_of(part)));
    rest = rest.subspan(bytes_of(part));
  }
  return {};
}

/// The files that came make an entry: all of them, or the first runs where a cache can be resumed anywhere.
void DiskTraffic::finish() {
  Restoration now = std::move(*restoration_);
  end_restoration();
  if (!now.is_whole()) {
    const int num_runs = now.num_lent_runs + static_cast<int>(now.num_filled);
    now.cache.truncate(can_resume_anywhere_ ? num_runs * run_tokens() : 0);
  }
  if (const int num_tokens = now.cache.num_computed(); num_tokens > 0) {
    parts_.prompts.insert(std::span(now.tokens).first(static_cast<std::size_t>(num_tokens)), std::move(now.cache));
    parts_.prompts.settle();
  }
  last_restore_ms_ = milliseconds_between(now.started_at, parts_.clock.now());
}

/// Whoever was held back may start, or ask for files of its own.
void DiskTraffic::end_restoration() {
  restoration_.reset();
  for (const auto& sequence : parts_.scheduler.sequences()) sequence->waits_for_disk = false;
}

bool DiskTraffic::give_up() {
  if (!restoration_) return false;
  tier_->cancel_reads();
  end_restoration();
  return true;
}

void DiskTraffic::abort() {
  spills_.clear();
  (void)give_up();
}

}  // namespace redpoll::engine
