#include "cache/sequence_cache.h"

#include <algorithm>
#include <utility>

#include "cache/cache_groups.h"

namespace redpoll::cache {

SequenceCache::SequenceCache(CachePools& pools)
    : pools_(&pools), tables_(static_cast<std::size_t>(pools.num_groups())) {}

SequenceCache& SequenceCache::operator=(SequenceCache&& other) noexcept {
  if (this == &other) return *this;
  release();
  std::swap(pools_, other.pools_);
  std::swap(tables_, other.tables_);
  std::swap(num_computed_, other.num_computed_);
  return *this;
}

int SequenceCache::blocks_for(int num_tokens) const {
  return (num_tokens + pools_->block_tokens() - 1) / pools_->block_tokens();
}

/// Of the group's table, for a token that follows `num_tokens` others.
int SequenceCache::first_needed(int group, int num_tokens) const {
  const int window = pools_->window(group);
  return window == 0 ? 0 : std::max(num_tokens + 1 - window, 0) / pools_->block_tokens();
}

bool SequenceCache::ensure_capacity(int num_tokens) {
  const int num_more = blocks_for(num_tokens) - table_length();
  if (num_more <= 0) return true;
  for (int group = 0; group < pools_->num_groups(); ++group) {
    if (num_more > pools_->pool(group).num_free()) return false;
  }
  make_room(num_more);
  for (int group = 0; group < pools_->num_groups(); ++group) {
    for (int i = 0; i < num_more; ++i) at(group).blocks.push_back(*pools_->pool(group).allocate());
  }
  return true;
}

/// Before blocks are taken, so that none is lost when there is no memory for its number.
void SequenceCache::make_room(int num_more) {
  for (Table& table : tables_) {
    const std::size_t needed = table.blocks.size() + static_cast<std::size_t>(num_more);
    if (needed > table.blocks.capacity()) table.blocks.reserve(std::max(needed, 2 * table.blocks.capacity()));
  }
}

void SequenceCache::advance(int num_tokens) {
  num_computed_ += num_tokens;
  CHECK(num_computed_ <= capacity(), "tokens were computed that have no place");
  for (int group = 0; group < pools_->num_groups(); ++group) {
    leave_behind(group, std::min(first_needed(group, num_computed_), table_length()));
  }
}

/// The first `num_blocks` entries of the group's table.
void SequenceCache::leave_behind(int group, int num_blocks) {
  Table& table = at(group);
  for (; table.num_left_behind < num_blocks; ++table.num_left_behind) {
    pools_->pool(group).release(std::exchange(table.blocks[static_cast<std::size_t>(table.num_left_behind)], kNoBlock));
  }
}

bool SequenceCache::can_resume_at(int num_tokens) const {
  if (num_tokens > num_computed_) return false;
  for (int group = 0; group < pools_->num_groups(); ++group) {
    if (num_tokens > 0 && at(group).num_left_behind > first_needed(group, num_tokens)) return false;
  }
  return true;
}

void SequenceCache::truncate(int num_tokens) {
  if (num_tokens == 0) return release();
  CHECK(can_resume_at(num_tokens), "a cache cannot go back to what it has left behind");
  const auto num_kept = static_cast<std::size_t>(blocks_for(num_tokens));
  for (int group = 0; group < pools_->num_groups(); ++group) {
    std::vector<BlockId>& blocks = at(group).blocks;
    for (; blocks.size() > num_kept; blocks.pop_back()) pools_->pool(group).release(blocks.back());
  }
  num_computed_ = num_tokens;
}

void SequenceCache::release() {
  for (int group = 0; group < static_cast<int>(tables_.size()); ++group) {
    Table& table = at(group);
    for (; static_cast<int>(table.blocks.size()) > table.num_left_behind; table.blocks.pop_back()) {
      pools_->pool(group).release(table.blocks.back());
    }
    table.blocks.clear();
    table.num_left_behind = 0;
  }
  num_computed_ = 0;
}

std::optional<SequenceCache::Fork> SequenceCache::fork(int num_tokens) const {
  CHECK(can_resume_at(num_tokens), "a fork cannot hold what its origin does not");
  Fork fork{.cache = SequenceCache(*pools_), .copies = {}};
  const int num_whole = num_tokens / pools_->block_tokens();
  fork.copies.reserve(tables_.size());
  fork.cache.make_room(num_whole);
  for (int group = 0; group < pools_->num_groups(); ++group) {
    Table& table = fork.cache.at(group);
    table.num_left_behind = first_needed(group, num_tokens);
    table.blocks.assign(static_cast<std::size_t>(num_whole), kNoBlock);
    for (int i = table.num_left_behind; i < num_whole; ++i) {
      const BlockId block = at(group).blocks[static_cast<std::size_t>(i)];
      pools_->pool(group).share(block);
      table.blocks[static_cast<std::size_t>(i)] = block;
    }
  }
  fork.cache.num_computed_ = num_tokens;
  if (num_tokens % pools_->block_tokens() == 0) return fork;
  if (!fork.cache.ensure_capacity(num_tokens)) return std::nullopt;
  for (int group = 0; group < pools_->num_groups(); ++group) {
    fork.copies.push_back({.group = group,
                           .from = at(group).blocks[static_cast<std::size_t>(num_whole)],
                           .to = fork.cache.at(group).blocks.back()});
  }
  return fork;
}

int SequenceCache::num_held() const {
  int num_blocks = 0;
  for (const Table& table : tables_) num_blocks += static_cast<int>(table.blocks.size()) - table.num_left_behind;
  return num_blocks;
}

int SequenceCache::reachable_capacity() const {
  int num_free = pools_->num_groups() == 0 ? 0 : pools_->pool(0).num_free();
  for (int group = 1; group < pools_->num_groups(); ++group) {
    num_free = std::min(num_free, pools_->pool(group).num_free());
  }
  return (table_length() + num_free) * pools_->block_tokens();
}

int SequenceCache::num_missing(int group, int num_tokens) const {
  const Table& table = at(group);
  const int window = pools_->window(group);
  int num_needed = blocks_for(num_tokens) - table.num_left_behind;
  if (window > 0) num_needed = std::min(num_needed, blocks_spanned(window, pools_->block_tokens()));
  return num_needed - (static_cast<int>(table.blocks.size()) - table.num_left_behind);
}

int SequenceCache::num_shared(int group, int num_tokens) const {
  return std::max(num_tokens / pools_->block_tokens() - first_needed(group, num_tokens), 0);
}

}  // namespace redpoll::cache
