// SequenceCache: the block tables of one sequence, that is, where its tokens' K and V and its states are, in each
// group. Knows which blocks, not what is in them: copying contents is left to whoever owns the storage.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cache/cache_pools.h"

namespace redpoll::cache {

/// Contents of `from` that must be copied to `to`, in all layers of the group, before either is written again.
struct BlockCopy {
  int group = 0;
  BlockId from = 0;
  BlockId to = 0;
};

/// In a table: the place of tokens that none sees any more.
inline constexpr BlockId kNoBlock = -1;

/// Owns its share of each block and gives it back when destroyed. Move-only; the pools must outlive it, and what was
/// moved from may only be destroyed. In each group of attention layers token t is in block
/// table(group)[t / block_tokens], and their tables are of the same length; a group of recurrent layers has one block.
/// Used by the engine thread only.
class SequenceCache {
 public:
  explicit SequenceCache(CachePools& pools);
  ~SequenceCache() { release(); }
  SequenceCache(SequenceCache&& other) noexcept = default;
  /// What this one holds is released; what the other held is this one's then, and the other is empty.
  SequenceCache& operator=(SequenceCache&& other) noexcept;
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  /// Tokens whose K and V are there, or in the state.
  [[nodiscard]] int num_computed() const { return num_computed_; }
  /// Room for `num_tokens` tokens in all. Takes nothing and returns false when any pool has too few free blocks.
  [[nodiscard]] bool ensure_capacity(int num_tokens);
  /// The next `num_tokens` tokens have been computed. Gives back the blocks that no later token sees.
  void advance(int num_tokens);
  void release();

  /// Whether all that the token after the first `num_tokens` computed ones sees is still there: a state cannot go back.
  [[nodiscard]] bool can_resume_at(int num_tokens) const;
  /// Forgets the tokens after the first `num_tokens`, at which it can resume, and gives back the blocks that these do
  /// not need.
  void truncate(int num_tokens);

  struct Fork;
  /// A second cache for the first `num_tokens` tokens, at which this one can resume: whole blocks are shared, a block
  /// that is only partly theirs is to be copied, because both sequences go on writing there. Nothing when such a block
  /// cannot be had.
  [[nodiscard]] std::optional<Fork> fork(int num_tokens) const;

  /// A cache as it is when `num_tokens` tokens have been computed. The contents of its blocks are still to be written,
  /// but for those of the group that sees all tokens whose first `num_lent` tokens, whole blocks, are shared with
  /// `lender`. Nothing when a pool has too few free blocks.
  [[nodiscard]] static std::optional<SequenceCache> to_be_filled(CachePools& pools, int num_tokens,
                                                                 const SequenceCache* lender, int num_lent);
  /// Entries of the group's table that belong to nobody, at its beginning.
  [[nodiscard]] int num_left_behind(int group) const { return at(group).num_left_behind; }

  [[nodiscard]] int num_groups() const { return pools_->num_groups(); }
  [[nodiscard]] CacheKind kind(int group) const { return pools_->kind(group); }
  [[nodiscard]] std::span<const BlockId> table(int group) const { return at(group).blocks; }
  /// Blocks of all groups together.
  [[nodiscard]] int num_held() const;
  /// Tokens for which there is room.
  [[nodiscard]] int capacity() const;
  /// What the capacity would be with every free block of the pools.
  [[nodiscard]] int reachable_capacity() const;

  /// Blocks that the group must still take to hold this many tokens, if they are computed one by one; negative if it
  /// has more than it needs.
  [[nodiscard]] int num_missing(int group, int num_tokens) const;
  /// Blocks of the group that a fork would share.
  [[nodiscard]] int num_shared(int group, int num_tokens) const;

 private:
  struct Table {
    std::vector<BlockId> blocks;
    int num_left_behind = 0;  // at its beginning, kNoBlock each
  };

  [[nodiscard]] Table& at(int group) { return tables_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] const Table& at(int group) const { return tables_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] int blocks_for(int group, int num_tokens) const;
  [[nodiscard]] int whole_blocks(int group, int num_tokens) const;
  [[nodiscard]] int num_more(int group, int num_tokens) const;
  [[nodiscard]] int first_needed(int group, int num_tokens) const;
  [[nodiscard]] int tokens_in(int group, int num_blocks) const;
  void make_room(int num_tokens);
  void leave_behind(int group, int num_blocks);

  CachePools* pools_;
  std::vector<Table> tables_;  // by group
  int num_computed_ = 0;
};

struct SequenceCache::Fork {
  SequenceCache cache;
  std::vector<BlockCopy> copies;
};

}  // namespace redpoll::cache
