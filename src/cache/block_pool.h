// BlockPool: which blocks of the KV cache are in use, and by how many. Pure bookkeeping: it holds no memory and knows
// neither sequences nor devices.
#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "base/error.h"

namespace redpoll::cache {

using BlockId = int;

/// Blocks 0 .. num_blocks - 1, each with a count of its users. The lowest free block is always given out first, so
/// that runs are repeatable and memory beyond the high-water mark is never touched. Used by the engine thread only.
class BlockPool {
 public:
  explicit BlockPool(int num_blocks);

  /// A block with one user, or nothing when all are in use.
  [[nodiscard]] std::optional<BlockId> allocate();
  /// One more user of a block that has some.
  void share(BlockId block);
  /// One user fewer; the last one frees the block.
  void release(BlockId block);

  [[nodiscard]] int num_blocks() const { return static_cast<int>(num_users_.size()); }
  [[nodiscard]] int num_free() const { return static_cast<int>(free_.size()); }
  [[nodiscard]] int num_used() const { return num_blocks() - num_free(); }
  [[nodiscard]] int num_users(BlockId block) const;

  /// Fails when the books contradict themselves: a free block with users, or a block that is neither free nor used.
  [[nodiscard]] Status check_integrity() const;

 private:
  using LowestFirst = std::priority_queue<BlockId, std::vector<BlockId>, std::greater<>>;

  std::vector<int> num_users_;  // per block
  LowestFirst free_;
};

}  // namespace redpoll::cache
