// DiskIndex: the books of the disk tier: which files there are, how they build on each other, and which one goes first
// when there is no room. Pure bookkeeping: it reads and removes no files.
#pragma once

#include <optional>
#include <vector>

#include "base/token.h"
#include "cache/disk_format.h"

namespace redpoll::cache {

/// Files from which a cache for the first `num_tokens` tokens of what was asked for can be made.
struct DiskMatch {
  int num_tokens = 0;                  // 0: there is nothing, and the rest is empty
  std::vector<ContentKey> runs;        // from the start of the text; empty where runs have no data
  std::optional<ContentKey> snapshot;  // always there where caches cannot be resumed anywhere
  /// All tokens of these files from the start of the text, runs without data included. Where caches can be resumed
  /// anywhere, these may be more than num_tokens: of the last file, a run or a snapshot, a beginning may be of use
  /// alone.
  std::vector<TokenId> tokens;
};

}  // namespace redpoll::cache
