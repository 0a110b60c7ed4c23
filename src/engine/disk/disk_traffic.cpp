#include "engine/disk/disk_traffic.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"

namespace redpoll::engine {
namespace {

/// Of runs; copying one out or in takes a millisecond or two.
constexpr std::size_t kRunBytes = std::size_t{8} << 20U;
constexpr int kMostRunBlocks = 8;
/// Of files that are read or wait to be taken in.
constexpr std::size_t kBytesReadAhead = std::size_t{16} << 20U;
/// Copied out while a step waits for room.
constexpr std::size_t kBytesCopiedOnEviction = std::size_t{16} << 20U;
/// While something runs. A file takes some ten milliseconds of a processor, whoever's they are.
constexpr std::chrono::milliseconds kBetweenWrites{1'000};
constexpr std::size_t kMostHeaderBytes = std::size_t{8} << 20U;
/// Entries that wait to be copied out.
constexpr std::size_t kMostSpills = 256;

/// Of tokens, or of a block table.
std::span<const int> part_of(std::span<const int> all, int first, int count) {
  return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

}  // namespace

Result<std::unique_ptr<DiskTraffic>> DiskTraffic::open(const SsdCacheOptions& options, const std::string& identity,
                                                       const DiskTrafficParts& parts, std::function<void()> on_change) {
  std::unique_ptr<DiskTraffic> traffic(new DiskTraffic(options, parts));
  traffic->fingerprint_ = traffic->fingerprint(identity);
  traffic->root_ = cache::root_key(traffic->fingerprint_);
  RETURN_IF_ERROR(check_max_bytes(traffic->options_, parts.pools, traffic->block_bytes_));
  ASSIGN_OR_RETURN(traffic->tier_, cache::DiskTier::open({.directory = options.directory,
                                                          .max_bytes = options.max_bytes,
                                                          .max_file_bytes = options.max_queued_bytes + kMostHeaderBytes,
                                                          .verify = options.verify,
                                                          .fingerprint = traffic->fingerprint_,
                                                          .run_tokens = traffic->run_tokens(),
                                                          .runs_have_data = traffic->full_group_ >= 0,
                                                          .can_resume_anywhere = traffic->can_resume_anywhere_,
                                                          .max_queued_bytes = options.max_queued_bytes},
                                                         std::move(on_change)));
  parts.prompts.set_observer(traffic.get());
  return traffic;
}

DiskTraffic::DiskTraffic(const SsdCacheOptions& options, const DiskTrafficParts& parts)
    : options_(options), parts_(parts) {
  for (int group = 0; group < parts_.pools.num_groups(); ++group) {
    if (parts_.pools.kind(group) == cache::CacheKind::kAttention && parts_.pools.window(group) == 0) {
      full_group_ = group;
    }
    block_bytes_.push_back(parts_.kv.block_bytes(group));
  }
  can_resume_anywhere_ = parts_.pools.can_go_back(std::numeric_limits<int>::max());
  if (options_.run_blocks == 0) {
    const std::size_t block = full_group_ < 0 ? 0 : block_bytes_[static_cast<std::size_t>(full_group_)];
    options_.run_blocks = kMostRunBlocks;
    while (options_.run_blocks > 1 && static_cast<std::size_t>(options_.run_blocks) * block > kRunBytes) {
      options_.run_blocks /= 2;
    }
  }
}

/// Of all that decides what bytes a file holds for its tokens.
std::string DiskTraffic::fingerprint(const std::string& identity) const {
  std::string text = identity + "\nblocks of " + std::to_string(parts_.pools.block_tokens()) + " tokens, runs of " +
                     std::to_string(options_.run_blocks);
  for (int group = 0; group < parts_.pools.num_groups(); ++group) {
    text += "\n" + std::to_string(static_cast<int>(parts_.pools.kind(group))) + " " +
            std::to_string(parts_.pools.window(group)) + " " +
            std::to_string(block_bytes_[static_cast<std::size_t>(group)]);
  }
  return sha256_hex(text);
}

DiskTraffic::~DiskTraffic() { parts_.prompts.set_observer(nullptr); }

// --- to the disk ---

void DiskTraffic::on_insert(std::span<const TokenId> tokens) {
  if (spills_.size() == kMostSpills) {  // the disk does not keep up
    spills_.pop_front();
    ++num_dropped_;
  }
  spills_.push_back({.tokens = {tokens.begin(), tokens.end()}, .parent = root_});
}

void DiskTraffic::on_evict(std::span<const TokenId> tokens, const cache::SequenceCache& cache) {
  Spill last_chance{.tokens = {tokens.begin(), tokens.end()}, .parent = root_};
  std::size_t budget = kBytesCopiedOnEviction;
  if (spill(last_chance, cache, budget) != SpillResult::kDone) ++num_dropped_;
}

bool DiskTraffic::write_behind(std::size_t max_bytes) {
  while (!spills_.empty()) {
    const cache::SequenceCache* entry = parts_.prompts.entry_of(spills_.front().tokens);
    if (entry != nullptr) {
      const SpillResult result = spill(spills_.front(), *entry, max_bytes);
      if (result != SpillResult::kDone) return result == SpillResult::kMore;
    }
    spills_.pop_front();
  }
  return false;
}

void DiskTraffic::write_between_steps() {
  if (parts_.clock.now() - written_at_ < kBetweenWrites) return;
  written_at_ = parts_.clock.now();
  (void)write_behind(1);
}

/// Writes what is not there yet of the entry: runs from the first on, then the rest.
DiskTraffic::SpillResult DiskTraffic::spill(Spill& spill, const cache::SequenceCache& cache, std::size_t& budget) {
  const int num_runs = static_cast<int>(spill.tokens.size()) / run_tokens();
  for (; spill.num_runs < num_runs; ++spill.num_runs) {
    cache::StoredHead run = run_of(spill);
    const cache::ContentKey key = run.key;
    if (!run.parts.empty()) {
      const SpillResult result = write(std::move(run), cache, budget);
      if (result != SpillResult::kDone) return result;
    }
    spill.parent = key;
  }
  cache::StoredHead rest = snapshot_of(spill, cache);
  return rest.parts.empty() ? SpillResult::kDone : write(std::move(rest), cache, budget);
}

/// The one after those that are done. Without parts if no group sees all tokens.
cache::StoredHead DiskTraffic::run_of(const Spill& spill) const {
  const int first = spill.num_runs * run_tokens();
  const auto tokens = part_of(spill.tokens, first, run_tokens());
  cache::StoredHead head{.kind = cache::StoredKind::kRun,
                         .key = cache::run_key(spill.parent, tokens),
                         .parent = spill.parent,
                         .first_token = first,
                         .tokens = {tokens.begin(), tokens.end()},
                         .parts = {}};
  if (full_group_ >= 0) {
    head.parts.push_back(
        {.group = full_group_, .first_block = spill.num_runs * options_.run_blocks, .num_blocks = options_.run_blocks});
  }
  return head;
}

/// Without parts if the runs hold all that there is.
cache::StoredHead DiskTraffic::snapshot_of(const Spill& spill, const cache::SequenceCache& cache) const {
  const int num_tokens = static_cast<int>(spill.tokens.size());
  const int first = spill.num_runs * run_tokens();
  const auto tokens = part_of(spill.tokens, first, num_tokens - first);
  cache::StoredHead head{.kind = cache::StoredKind::kSnapshot,
                         .key = cache::snapshot_key(spill.parent, tokens),
                         .parent = spill.parent,
                         .first_token = first,
                         .tokens = {tokens.begin(), tokens.end()},
                         .parts = {}};
  const int block_tokens = parts_.pools.block_tokens();
  for (int group = 0; group < cache.num_groups(); ++group) {
    const bool is_state = cache.kind(group) == cache::CacheKind::kRecurrent;
    const int end = is_state ? 1 : (num_tokens + block_tokens - 1) / block_tokens;
    const int begin = group == full_group_ ? first / block_tokens : cache.num_left_behind(group);
    if (begin < end) head.parts.push_back({.group = group, .first_block = begin, .num_blocks = end - begin});
  }
  return head;
}

/// Copies the blocks and queues the file, unless it is there or on its way.
DiskTraffic::SpillResult DiskTraffic::write(cache::StoredHead head, const cache::SequenceCache& cache,
                                            std::size_t& budget) {
  if (tier_->holds(head.kind, head.key)) return SpillResult::kDone;
  if (budget == 0) return SpillResult::kMore;
  const std::size_t num_bytes = bytes_of(head.parts);
  if (num_bytes > options_.max_queued_bytes) {
    ++num_dropped_;  // it would never have room
    return SpillResult::kDone;
  }
  if (tier_->queued_bytes() + num_bytes > options_.max_queued_bytes) return SpillResult::kNoRoom;
  cache::Payload payload = tier_->payloads().take(num_bytes);
  std::span<std::byte> rest = payload;
  for (const auto& [group, first_block, num_blocks] : head.parts) {
    const auto blocks = part_of(cache.table(group), first_block, num_blocks);
    const std::size_t bytes = blocks.size() * block_bytes_[static_cast<std::size_t>(group)];
    parts_.kv.read_blocks(group, blocks, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  budget -= std::min(budget, num_bytes);
  (void)tier_->write(std::move(head), std::move(payload));  // what it refuses it counts
  return SpillResult::kDone;
}

std::size_t DiskTraffic::bytes_of(const std::vector<cache::StoredPart>& parts) const {
  std::size_t bytes = 0;
  for (const cache::StoredPart& part : parts) {
    bytes += static_cast<std::size_t>(part.num_blocks) * block_bytes_[static_cast<std::size_t>(part.group)];
  }
  return bytes;
}

void DiskTraffic::flush() noexcept {
  try {
    if (write_all()) return;
    log_warn("the engine stops before all of the prompt cache is on disk");
  } catch (const std::exception& error) {
    log_warn("the engine stops before all of the prompt cache is on disk", {{"reason", error.what()}});
  }
}

bool DiskTraffic::write_all() {
  const Clock::TimePoint deadline = parts_.clock.now() + options_.flush_limit;
  while (write_behind(std::numeric_limits<std::size_t>::max()) || !spills_.empty()) {
    if (!tier_->flush(deadline)) return false;
  }
  return tier_->flush(deadline);
}

SsdCacheStats DiskTraffic::stats() const {
  SsdCacheStats stats{.tier = tier_->stats(), .restore_ms_last = last_restore_ms_};
  stats.tier.dropped += num_dropped_;
  return stats;
}

void DiskTraffic::explain(std::span<const TokenId> prompt, CacheExplanation& explanation) const {
  explanation.disk_tokens = tier_->find(prompt, static_cast<int>(prompt.size()) - 1).num_tokens;
  explanation.cache_namespace = fingerprint_.substr(0, 16);
}

// --- from the disk ---

void DiskTraffic::restore(int num_places) {
  take_restored();
  if (restoration_ && parts_.clock.now() - restoration_->progress_at > options_.restore_limit) {
    log_warn("the disk cache does not answer; what it has is computed instead");
    finish();
  }
  for (Sequence* sequence : parts_.scheduler.waiting()) {
    if (num_places <= 0) break;
    if (!parts_.scheduler.may_start(*sequence)) continue;
    if (!sequence->has_asked_disk) consider(*sequence);
    if (!sequence->waits_for_disk) --num_places;
  }
}

/// Whether the disk has more for the sequence than memory.
void DiskTraffic::consider(Sequence& sequence) {
  const Scheduler& scheduler = parts_.scheduler;
  if (!scheduler.may_use_prompt_cache(sequence)) return;
  if (!restoration_ && !scheduler.has_room_to_start(sequence)) return;
  const int most = sequence.num_tokens() - 1;
  cache::DiskTier::Match match = tier_->find(sequence.tokens, most);
  if (match.num_tokens < parts_.prompts.find(sequence.tokens, most) + options_.least_tokens) {
    sequence.has_asked_disk = true;
  } else if (restoration_) {
    sequence.waits_for_disk = true;  // until that is there: maybe it is what this one wants
  } else {
    sequence.has_asked_disk = true;
    sequence.waits_for_disk = begin(std::move(match));
  }
}

/// False if there is no room for it.
bool DiskTraffic::begin(cache::DiskTier::Match match) {
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
  restoration_.emplace(Restoration{.cache = std::move(*cache),
                                   .tokens = std::move(match.tokens),
                                   .files = std::move(files),
                                   .num_lent_runs = num_lent_runs,
                                   .first_read = next_read_,
                                   .started_at = parts_.clock.now(),
                                   .progress_at = parts_.clock.now()});
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
  std::size_t bytes = 0;  // read or waiting to be taken in
  for (std::size_t i = now.num_filled; i < now.num_asked; ++i) bytes += bytes_of(now.files[i].parts);
  for (; now.num_asked < now.files.size() && (bytes == 0 || bytes < kBytesReadAhead); ++now.num_asked) {
    const cache::StoredHead& file = now.files[now.num_asked];
    tier_->read(next_read_++, file.kind, file.key);
    bytes += bytes_of(file.parts);
  }
}

void DiskTraffic::take_restored() {
  for (cache::DiskTier::Restored& restored : tier_->take_restored()) {
    if (!restoration_ || restored.id < restoration_->first_read) continue;  // of one that was given up
    const Status filled = restored.file ? fill(*restored.file) : std::unexpected(restored.file.error());
    if (restored.file) tier_->payloads().give_back(std::move(restored.file->payload));
    if (!filled) {
      if (filled.error().code != ErrorCode::kNotFound) {
        log_warn("a file of the disk cache is not used", {{"reason", filled.error().message}});
      }
      finish();
      continue;
    }
    restoration_->progress_at = parts_.clock.now();
    if (++restoration_->num_filled == restoration_->files.size()) {
      finish();
    } else {
      ask_for_files();
    }
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
  for (const auto& [group, first_block, num_blocks] : awaited.parts) {
    const auto blocks = part_of(cache.table(group), first_block, num_blocks);
    const std::size_t bytes = blocks.size() * block_bytes_[static_cast<std::size_t>(group)];
    parts_.kv.write_blocks(group, blocks, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return {};
}

/// The files that came make an entry: all of them, or the first runs where a cache can be resumed anywhere.
void DiskTraffic::finish() {
  Restoration now = std::move(*restoration_);
  end_restoration();
  if (now.num_filled < now.files.size()) {
    const int num_runs = now.num_lent_runs + static_cast<int>(now.num_filled);
    now.cache.truncate(can_resume_anywhere_ ? num_runs * run_tokens() : 0);
  }
  if (const int num_tokens = now.cache.num_computed(); num_tokens > 0) {
    parts_.prompts.insert(part_of(now.tokens, 0, num_tokens), std::move(now.cache));
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
  end_restoration();
  return true;
}

void DiskTraffic::abort() {
  spills_.clear();
  if (restoration_) end_restoration();
}

}  // namespace redpoll::engine
