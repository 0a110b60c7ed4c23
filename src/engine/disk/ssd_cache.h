// The disk tier of the prompt cache as the engine's users see it: options in, numbers out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "cache/disk_tier.h"

namespace redpoll::engine {

/// Files that keep what the prompt cache gives up, and over restarts; see cache::DiskTier.
struct SsdCacheOptions {
  std::filesystem::path directory;
  std::uint64_t max_bytes = std::uint64_t{32} << 30U;
  bool verify = true;                                      // payloads, too, when they are read
  int least_tokens = 64;                                   // fewer are computed about as fast as they are read
  int run_blocks = 0;                                      // of a file; 0: as many as take 8 MiB at most, and 8 at most
  std::size_t max_queued_bytes = std::size_t{128} << 20U;  // that wait to be written
  std::chrono::milliseconds flush_limit{5'000};            // for what is left to write when the engine stops
  std::chrono::milliseconds restore_limit{10'000};         // for each file; then the rest is computed
};

struct SsdCacheStats {
  cache::DiskTierStats tier;   // `dropped` counts entries that were given up before they were copied out, too
  double restore_ms_last = 0;  // from asking to having, of the last sequence that was restored
};

}  // namespace redpoll::engine
