// CachePools: the block pools of all cache groups of a model. Pure bookkeeping, as each pool is.
#pragma once

#include <span>
#include <vector>

#include "cache/block_pool.h"
#include "cache/cache_groups.h"

namespace redpoll::cache {

/// A group's share of the memory.
struct GroupPool {
  CacheKind kind = CacheKind::kAttention;
  int window = 0;  // see CacheGroup
  int num_blocks = 0;
};

/// Block ids of one group have nothing to do with those of another. Used by the engine thread only.
class CachePools {
 public:
  CachePools(int block_tokens, std::span<const GroupPool> groups);

  [[nodiscard]] int block_tokens() const { return block_tokens_; }
  [[nodiscard]] int num_groups() const { return static_cast<int>(pools_.size()); }
  [[nodiscard]] CacheKind kind(int group) const { return groups_[static_cast<std::size_t>(group)].kind; }
  [[nodiscard]] int window(int group) const { return groups_[static_cast<std::size_t>(group)].window; }
  [[nodiscard]] BlockPool& pool(int group) { return pools_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] const BlockPool& pool(int group) const { return pools_[static_cast<std::size_t>(group)]; }

  /// Whether a cache of so many tokens can be resumed anywhere: no group has a state or a window that leaves any
  /// behind.
  [[nodiscard]] bool can_go_back(int num_tokens) const;
  /// Of all groups together.
  [[nodiscard]] int num_used() const;
  [[nodiscard]] Status check_integrity() const;

 private:
  int block_tokens_;
  std::vector<GroupPool> groups_;
  std::vector<BlockPool> pools_;  // by group
};

}  // namespace redpoll::cache
