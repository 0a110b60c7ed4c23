// Restoration: files of the disk tier on their way into an entry of the prompt cache. Plain data; DiskTraffic reads and
// fills.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/token.h"
#include "cache/disk_format.h"
#include "cache/sequence_cache.h"

namespace redpoll::engine {

struct Restoration {
  cache::SequenceCache cache;
  std::vector<TokenId> tokens;
  std::vector<cache::StoredHead> files;  // in the order in which they are read, as this engine would have written them
  int num_wanted = 0;                    // of the tokens, by the prompt that it is for
  int num_in_memory = 0;                 // of the tokens, those that this prompt could go on from without it
  int num_lent_runs = 0;                 // which memory has, and which come before the files
  std::uint64_t first_read = 0;          // id of the read of the first file
  Clock::TimePoint started_at;
  Clock::TimePoint patient_until{};  // whatever the deadline is: the engine was late itself
  std::size_t num_asked = 0;
  std::size_t num_filled = 0;

  [[nodiscard]] bool is_whole() const { return num_filled == files.size(); }
  /// Of tokens that would be computed without it, those up to the end of the file that comes next.
  [[nodiscard]] int num_spared() const {
    const cache::StoredHead& next = files[num_filled];
    const int end = next.first_token + static_cast<int>(next.tokens.size());
    return std::max(std::min(end, num_wanted) - num_in_memory, 0);
  }
};

}  // namespace redpoll::engine
