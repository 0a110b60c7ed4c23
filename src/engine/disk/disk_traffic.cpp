#include "engine/disk/disk_traffic.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"

namespace redpoll::engine {
namespace {

/// Of runs; copying one out or in takes a millisecond or two.
constexpr std::size_t kRunBytes = std::size_t{8} << 20U;
constexpr int kMostRunBlocks = 8;
/// While something runs. A file takes some ten milliseconds of a processor, whoever's they are.
constexpr std::chrono::milliseconds kBetweenWrites{1'000};
/// Copied out with nothing running, and not written yet: what is left to write when somebody asks.
constexpr std::size_t kBytesAheadOfDisk = std::size_t{8} << 20U;
constexpr std::size_t kMostHeaderBytes = std::size_t{8} << 20U;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
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
                                                          .max_queued_bytes = options.max_queued_bytes,
                                                          .look_interval = options.look_interval},
                                                         std::move(on_change)));
  parts.prompts.set_observer(traffic.get());
  return traffic;
}

DiskTraffic::DiskTraffic(const SsdCacheOptions& options, const DiskTrafficParts& parts)
    : options_(options), parts_(parts), evictions_(options.eviction_bytes_per_second, options.max_queued_bytes) {
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

void DiskTraffic::on_insert(std::span<const TokenId> tokens) {
  if (spills_.size() == kMostSpills) {  // the disk does not keep up
    spills_.pop_front();
    ++num_dropped_;
  }
  try {
    spills_.push_back({.tokens = {tokens.begin(), tokens.end()}, .parent = root_});
  } catch (const std::bad_alloc&) {
    report_failed_copy();
    ++num_dropped_;
  }
}

void DiskTraffic::on_evict(std::span<const TokenId> tokens, const cache::SequenceCache& cache) {
  SpillResult result = SpillResult::kFailed;
  try {
    Spill last_chance{.tokens = {tokens.begin(), tokens.end()}, .parent = root_};
    const auto room = static_cast<std::int64_t>(options_.max_queued_bytes - tier_->queued_bytes());
    const std::int64_t most = std::min(evictions_.at(parts_.clock.now()), room);
    std::int64_t budget = most;
    // Of layers with windows or states a part is of no use.
    if (can_resume_anywhere_ || std::cmp_less_equal(missing_bytes(last_chance, cache), most)) {
      result = try_to_spill(last_chance, cache, budget);
    }
    evictions_.spend(most - budget);
  } catch (const std::bad_alloc&) {
    report_failed_copy();
  }
  if (result != SpillResult::kDone) ++num_dropped_;
}

bool DiskTraffic::write_behind(std::int64_t max_bytes) {
  while (!spills_.empty()) {
    const cache::SequenceCache* entry = parts_.prompts.entry_of(spills_.front().tokens);
    if (entry != nullptr) {
      const SpillResult result = try_to_spill(spills_.front(), *entry, max_bytes);
      if (result == SpillResult::kMore) return true;
      if (result == SpillResult::kNoRoom) return false;
      if (result == SpillResult::kFailed) ++num_dropped_;
    }
    spills_.pop_front();
  }
  return false;
}

bool DiskTraffic::disk_keeps_up() const { return tier_->queued_bytes() < kBytesAheadOfDisk; }

bool DiskTraffic::write_when_idle() {
  if (parts_.clock.now() - ran_at_ < options_.quiet_before_writes || !disk_keeps_up()) return false;
  return write_behind(1);
}

void DiskTraffic::write_between_steps() {
  ran_at_ = parts_.clock.now();
  if (ran_at_ - written_at_ < kBetweenWrites) return;
  written_at_ = ran_at_;
  (void)write_behind(1);
}

std::optional<std::chrono::milliseconds> DiskTraffic::before_next_look() const {
  if (is_restoring()) return before_deadline();
  if (!spills_.empty() && disk_keeps_up()) return options_.quiet_before_writes;
  return std::nullopt;  // the disk's thread wakes the engine when it has written something
}

void DiskTraffic::report_failed_copy() noexcept {
  if (std::exchange(has_reported_failed_copy_, true)) return;
  constexpr std::string_view kMessage = "cannot copy between memory and the disk cache; requests go on without";
  try {
    throw;
  } catch (const std::exception& error) {
    try {
      log_warn(kMessage, {{"why", error.what()}});
    } catch (const std::exception&) {
      return;  // no memory to say so
    }
  } catch (...) {
    return;  // nor is there anything to say
  }
}

DiskTraffic::SpillResult DiskTraffic::try_to_spill(Spill& what, const cache::SequenceCache& cache,
                                                   std::int64_t& budget) noexcept {
  try {
    return spill(what, cache, budget);
  } catch (...) {
    report_failed_copy();
    return SpillResult::kFailed;
  }
}

/// Writes what is not there yet of the entry: runs from the first on, then the rest.
DiskTraffic::SpillResult DiskTraffic::spill(Spill& spill, const cache::SequenceCache& cache, std::int64_t& budget) {
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

/// Of files that `spill` would write.
std::size_t DiskTraffic::missing_bytes(Spill spill, const cache::SequenceCache& cache) const {
  std::size_t bytes = 0;
  const auto add = [&](const cache::StoredHead& head) {
    if (!head.parts.empty() && !tier_->holds(head.kind, head.key)) bytes += allocated_bytes(bytes_of(head.parts));
  };
  for (const int num_runs = static_cast<int>(spill.tokens.size()) / run_tokens(); spill.num_runs < num_runs;) {
    const cache::StoredHead run = run_of(spill);
    add(run);
    spill.parent = run.key;
    ++spill.num_runs;
  }
  add(snapshot_of(spill, cache));
  return bytes;
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
                                            std::int64_t& budget) {
  if (tier_->holds(head.kind, head.key)) return SpillResult::kDone;
  if (tier_->is_blocked(head.key)) return SpillResult::kFailed;
  if (budget <= 0) return SpillResult::kMore;
  const std::size_t num_bytes = bytes_of(head.parts);
  if (allocated_bytes(num_bytes) > options_.max_queued_bytes) {
    ++num_dropped_;  // it would never have room
    return SpillResult::kDone;
  }
  std::optional<cache::Payload> payload = tier_->room_for(num_bytes);
  if (!payload) return SpillResult::kNoRoom;
  std::span<std::byte> rest = *payload;
  for (const cache::StoredPart& part : head.parts) {
    parts_.kv.read_blocks(part.group, blocks_of(part, cache), rest.first(bytes_of(part)));
    rest = rest.subspan(bytes_of(part));
  }
  has_reported_failed_copy_ = false;
  budget -= static_cast<std::int64_t>(num_bytes);
  (void)tier_->write(std::move(head), *std::move(payload));  // what it refuses it counts
  return SpillResult::kDone;
}

std::size_t DiskTraffic::bytes_of(const std::vector<cache::StoredPart>& parts) const {
  std::size_t bytes = 0;
  for (const cache::StoredPart& part : parts) bytes += bytes_of(part);
  return bytes;
}

std::size_t DiskTraffic::bytes_of(const cache::StoredPart& part) const {
  return static_cast<std::size_t>(part.num_blocks) * block_bytes_[static_cast<std::size_t>(part.group)];
}

std::span<const cache::BlockId> DiskTraffic::blocks_of(const cache::StoredPart& part,
                                                       const cache::SequenceCache& cache) {
  return part_of(cache.table(part.group), part.first_block, part.num_blocks);
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
  tier_->cancel_reads();
  if (!write_spills(deadline)) return false;
  // Then all that memory has: others may have removed what was written, and writing may have failed.
  (void)tier_->look_again(deadline);
  for (std::vector<TokenId>& tokens : parts_.prompts.entries()) {
    spills_.push_back({.tokens = std::move(tokens), .parent = root_});
  }
  return write_spills(deadline);
}

bool DiskTraffic::write_spills(Clock::TimePoint deadline) {
  while (write_behind(kNoLimit) || !spills_.empty()) {
    if (!tier_->flush(deadline)) return false;
  }
  return tier_->flush(deadline);
}

SsdCacheStats DiskTraffic::stats() const {
  SsdCacheStats stats{.tier = tier_->stats(),
                      .restore_ms_last = last_restore_ms_,
                      .waiting = spills_.size(),
                      .given_up = num_given_up_};
  stats.tier.dropped += num_dropped_;
  return stats;
}

void DiskTraffic::explain(std::span<const TokenId> prompt, CacheExplanation& explanation) const {
  explanation.disk_tokens = find(prompt, static_cast<int>(prompt.size()) - 1).num_tokens;
  explanation.cache_namespace = cache::folder_name(fingerprint_);
  const cache::ForeignFiles::Beginning other = tier_->find_elsewhere(prompt);
  explanation.other_namespace = other.folder;
  explanation.other_tokens = other.num_tokens;
}

}  // namespace redpoll::engine
