// The disk tier of the prompt cache as the engine's users see it: options in, numbers out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"
#include "cache/cache_pools.h"
#include "cache/disk_directory.h"
#include "cache/disk_tier.h"

namespace redpoll::engine {

/// Files that keep what the prompt cache gives up, and over restarts; see cache::DiskTier.
struct SsdCacheOptions {
  std::filesystem::path directory;
  std::uint64_t max_bytes = std::uint64_t{32} << 30U;
  bool verify = true;                                      // payloads, too, when they are read
  int least_tokens = 64;                                   // fewer are computed about as fast as they are read
  int run_blocks = 0;                                      // of a file; 0: as many as take 8 MiB at most, and 8 at most
  std::size_t max_queued_bytes = std::size_t{128} << 20U;  // that wait to be written; see memory_bytes
  /// Copied out of what memory gives up, which others wait for; saved up to max_queued_bytes.
  std::size_t eviction_bytes_per_second = std::size_t{64} << 20U;
  std::chrono::milliseconds quiet_before_writes{50};  // with nothing running
  std::chrono::milliseconds look_interval{5'000};     // for what others do to the directory
  std::chrono::milliseconds flush_limit{5'000};       // for what is left to write when the engine stops
  /// What reading may take beyond the time in which the same tokens would be computed: a disk that works may be at a
  /// file that it writes through when it is asked, and tokens of a small model take no time at all.
  std::chrono::milliseconds restore_slack{200};
};

/// Memory for what is on its way, 256 MiB by default; all sizes are those of what is allocated.
/// - One half, max_queued_bytes, is for payloads that wait to be written, the one being filled or written included, and
///   for what cache::PayloadPool keeps to be used again.
/// - The other is for what is read and not taken in yet: 24 MiB, or one file if that is larger. A file is never larger
///   than the half. What is left of it is for copies of a file that kernels make on their way from and to a device: one
///   at a time, about as large as the file. Files beyond a third of it, which snapshots of wide windows can be, exceed
///   it by these copies on a device; kernels for a CPU make none.
[[nodiscard]] inline std::size_t memory_bytes(const SsdCacheOptions& options) { return 2 * options.max_queued_bytes; }

struct SsdCacheStats {
  cache::DiskTierStats tier;   // `dropped` counts entries that were given up before they were copied out, too
  double restore_ms_last = 0;  // from asking to having, of the last sequence that was restored
  std::size_t waiting = 0;     // entries that memory has and the disk has not all of
  std::uint64_t given_up = 0;  // restorations that took longer than computing; what had come was used
};

/// Makes the directory, and writes into it: an Error, with the flag and what to do, for one that can never be used.
[[nodiscard]] Result<cache::DirectoryCheck> check_directory(const SsdCacheOptions& options);
/// For one that is not there yet, without making it.
[[nodiscard]] Status check_could_be_made(const SsdCacheOptions& options);
/// The same error with the flag that it is about, unless it names one.
[[nodiscard]] std::unexpected<Error> about_ssd_cache(Error error);

/// kInvalidArgument unless the fewest files fit that anything could be gone on from: a run, of `options.run_blocks`,
/// and what windows and states take beside it. `block_bytes`: by group.
[[nodiscard]] Status check_max_bytes(const SsdCacheOptions& options, const cache::CachePools& pools,
                                     std::span<const std::size_t> block_bytes);

}  // namespace redpoll::engine
