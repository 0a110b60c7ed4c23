#include "cache/block_pool.h"

#include <string>
#include <utility>

namespace redpoll::cache {

BlockPool::BlockPool(int num_blocks) {
  CHECK(num_blocks >= 0, "a pool cannot have fewer than no blocks");
  num_users_.assign(static_cast<std::size_t>(num_blocks), 0);
  std::vector<BlockId> ids(num_users_.size());
  for (int i = 0; i < num_blocks; ++i) ids[static_cast<std::size_t>(i)] = i;
  free_ = LowestFirst(std::greater<>(), std::move(ids));
}

std::optional<BlockId> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.top();
  free_.pop();
  num_users_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  CHECK(num_users(block) > 0, "only a block in use can be shared");
  ++num_users_[static_cast<std::size_t>(block)];
}

void BlockPool::release(BlockId block) {
  CHECK(num_users(block) > 0, "a block was released more often than it was taken");
  if (--num_users_[static_cast<std::size_t>(block)] == 0) free_.push(block);
}

int BlockPool::num_users(BlockId block) const {
  CHECK(block >= 0 && block < num_blocks(), "no such block");
  return num_users_[static_cast<std::size_t>(block)];
}

Status BlockPool::check_integrity() const {
  std::vector<bool> is_free(num_users_.size(), false);
  for (LowestFirst left = free_; !left.empty(); left.pop()) {
    const auto block = static_cast<std::size_t>(left.top());
    if (is_free[block]) return fail(ErrorCode::kInternal, "block " + std::to_string(block) + " is free twice");
    is_free[block] = true;
  }
  for (std::size_t block = 0; block < num_users_.size(); ++block) {
    if (is_free[block] != (num_users_[block] == 0)) {
      return fail(ErrorCode::kInternal, "block " + std::to_string(block) + " has " + std::to_string(num_users_[block]) +
                                            " users and is " + (is_free[block] ? "free" : "not free"));
    }
  }
  return {};
}

}  // namespace redpoll::cache
