// SequenceCache: the block table of one sequence, that is, where its tokens' K and V are. Knows which blocks, not what
// is in them: copying contents is left to whoever owns the storage.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace redpoll::cache {

/// Contents of `from` that must be copied to `to` before either is written again.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

/// Owns its share of each block and gives it back when destroyed. Move-only; the pool must outlive it. Token t is in
/// block table()[t / block_tokens]. Used by the engine thread only.
class SequenceCache {
 public:
  SequenceCache(BlockPool& pool, int block_tokens);
  ~SequenceCache() { release(); }
  SequenceCache(SequenceCache&& other) noexcept;
  SequenceCache& operator=(SequenceCache&& other) noexcept;
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  /// Room for `num_tokens` tokens in all. Takes nothing and returns false when the pool has too few free blocks.
  [[nodiscard]] bool ensure_capacity(int num_tokens);
  /// Gives back the blocks that the first `num_tokens` tokens do not need.
  void truncate(int num_tokens);
  void release() { truncate(0); }

  struct Fork;
  /// A second table for the first `num_tokens` tokens: whole blocks are shared, a block that is only partly theirs is
  /// to be copied, because both sequences go on writing there. Nothing when that one block cannot be had.
  [[nodiscard]] std::optional<Fork> fork(int num_tokens) const;

  [[nodiscard]] std::span<const BlockId> table() const { return table_; }
  [[nodiscard]] int num_blocks() const { return static_cast<int>(table_.size()); }
  [[nodiscard]] int capacity() const { return num_blocks() * block_tokens_; }
  /// What the capacity would be with every free block of the pool.
  [[nodiscard]] int reachable_capacity() const { return (num_blocks() + pool_->num_free()) * block_tokens_; }
  /// Blocks that this many tokens fill; what a fork shares.
  [[nodiscard]] int num_whole_blocks(int num_tokens) const { return num_tokens / block_tokens_; }
  [[nodiscard]] int blocks_for(int num_tokens) const { return (num_tokens + block_tokens_ - 1) / block_tokens_; }

 private:
  void make_room(int num_more);

  BlockPool* pool_;
  int block_tokens_;
  std::vector<BlockId> table_;
};

struct SequenceCache::Fork {
  SequenceCache cache;
  std::optional<BlockCopy> copy;
};

}  // namespace redpoll::cache
