#include "cache/sequence_cache.h"

#include <algorithm>
#include <utility>

namespace redpoll::cache {

SequenceCache::SequenceCache(BlockPool& pool, int block_tokens) : pool_(&pool), block_tokens_(block_tokens) {
  CHECK(block_tokens > 0, "a block holds at least one token");
}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : pool_(other.pool_), block_tokens_(other.block_tokens_), table_(std::exchange(other.table_, {})) {}

SequenceCache& SequenceCache::operator=(SequenceCache&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = other.pool_;
  block_tokens_ = other.block_tokens_;
  table_ = std::exchange(other.table_, {});
  return *this;
}

bool SequenceCache::ensure_capacity(int num_tokens) {
  const int num_missing = blocks_for(num_tokens) - num_blocks();
  if (num_missing > pool_->num_free()) return false;
  if (num_missing > 0) make_room(num_missing);
  for (int i = 0; i < num_missing; ++i) table_.push_back(*pool_->allocate());
  return true;
}

/// Before blocks are taken, so that none is lost when there is no memory for its number.
void SequenceCache::make_room(int num_more) {
  const std::size_t needed = table_.size() + static_cast<std::size_t>(num_more);
  if (needed > table_.capacity()) table_.reserve(std::max(needed, 2 * table_.capacity()));
}

void SequenceCache::truncate(int num_tokens) {
  const int num_kept = blocks_for(num_tokens);
  while (num_blocks() > num_kept) {
    pool_->release(table_.back());
    table_.pop_back();
  }
}

std::optional<SequenceCache::Fork> SequenceCache::fork(int num_tokens) const {
  CHECK(num_tokens >= 0 && num_tokens <= capacity(), "a fork cannot hold more than its origin");
  Fork fork{.cache = SequenceCache(*pool_, block_tokens_), .copy = std::nullopt};
  const int num_shared = num_whole_blocks(num_tokens);
  fork.cache.make_room(num_shared);
  for (const BlockId block : table().first(static_cast<std::size_t>(num_shared))) {
    pool_->share(block);
    fork.cache.table_.push_back(block);
  }
  if (num_tokens % block_tokens_ != 0) {
    if (!fork.cache.ensure_capacity(num_tokens)) return std::nullopt;
    fork.copy = {.from = table_[static_cast<std::size_t>(num_shared)], .to = fork.cache.table_.back()};
  }
  return fork;
}

}  // namespace redpoll::cache
