#include "cache/sequence_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

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

/// The entries of the group's table for so many tokens.
int SequenceCache::blocks_for(int group, int num_tokens) const {
  if (kind(group) == CacheKind::kRecurrent) return num_tokens > 0 ? 1 : 0;
  return (num_tokens + pools_->block_tokens() - 1) / pools_->block_tokens();
}

/// Of these, those that will not be written any more.
int SequenceCache::whole_blocks(int group, int num_tokens) const {
  return kind(group) == CacheKind::kRecurrent ? 0 : num_tokens / pools_->block_tokens();
}

int SequenceCache::tokens_in(int group, int num_blocks) const {
  if (kind(group) == CacheKind::kRecurrent) return num_blocks > 0 ? std::numeric_limits<int>::max() : 0;
  return num_blocks * pools_->block_tokens();
}

int SequenceCache::num_more(int group, int num_tokens) const {
  return std::max(blocks_for(group, num_tokens) - static_cast<int>(at(group).blocks.size()), 0);
}

/// Of the group's table, for a token that follows `num_tokens` others.
int SequenceCache::first_needed(int group, int num_tokens) const {
  const int window = pools_->window(group);
  return window == 0 ? 0 : std::max(num_tokens + 1 - window, 0) / pools_->block_tokens();
}

bool SequenceCache::ensure_capacity(int num_tokens) {
  for (int group = 0; group < num_groups(); ++group) {
    if (num_more(group, num_tokens) > pools_->pool(group).num_free()) return false;
  }
  make_room(num_tokens);
  for (int group = 0; group < num_groups(); ++group) {
    for (int i = num_more(group, num_tokens); i > 0; --i) {
      at(group).blocks.push_back(*pools_->pool(group).allocate());
    }
  }
  return true;
}

/// Before blocks are taken, so that none is lost when there is no memory for its number.
void SequenceCache::make_room(int num_tokens) {
  for (int group = 0; group < num_groups(); ++group) {
    std::vector<BlockId>& blocks = at(group).blocks;
    const auto needed = static_cast<std::size_t>(blocks_for(group, num_tokens));
    if (needed > blocks.capacity()) blocks.reserve(std::max(needed, 2 * blocks.capacity()));
  }
}

void SequenceCache::advance(int num_tokens) {
  num_computed_ += num_tokens;
  CHECK(num_computed_ <= capacity(), "tokens were computed that have no place");
  for (int group = 0; group < num_groups(); ++group) {
    const int length = static_cast<int>(at(group).blocks.size());
    leave_behind(group, std::min(first_needed(group, num_computed_), length));
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
  if (num_tokens == 0) return true;
  if (num_tokens > num_computed_) return false;
  for (int group = 0; group < num_groups(); ++group) {
    if (kind(group) == CacheKind::kRecurrent && num_tokens != num_computed_) return false;
    if (at(group).num_left_behind > first_needed(group, num_tokens)) return false;
  }
  return true;
}

void SequenceCache::truncate(int num_tokens) {
  if (num_tokens == 0) return release();
  CHECK(can_resume_at(num_tokens), "a cache cannot go back to what it has left behind");
  for (int group = 0; group < num_groups(); ++group) {
    std::vector<BlockId>& blocks = at(group).blocks;
    const auto num_kept = static_cast<std::size_t>(blocks_for(group, num_tokens));
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
  fork.copies.reserve(tables_.size());
  fork.cache.make_room(num_tokens);
  for (int group = 0; group < num_groups(); ++group) {
    Table& table = fork.cache.at(group);
    const int num_whole = whole_blocks(group, num_tokens);
    table.num_left_behind = std::min(first_needed(group, num_tokens), num_whole);
    table.blocks.assign(static_cast<std::size_t>(num_whole), kNoBlock);
    for (int i = table.num_left_behind; i < num_whole; ++i) {
      const BlockId block = at(group).blocks[static_cast<std::size_t>(i)];
      pools_->pool(group).share(block);
      table.blocks[static_cast<std::size_t>(i)] = block;
    }
  }
  fork.cache.num_computed_ = num_tokens;
  if (!fork.cache.ensure_capacity(num_tokens)) return std::nullopt;
  for (int group = 0; group < num_groups(); ++group) {
    const auto num_whole = static_cast<std::size_t>(whole_blocks(group, num_tokens));
    const Table& table = fork.cache.at(group);
    if (table.blocks.size() == num_whole) continue;
    fork.copies.push_back({.group = group, .from = at(group).blocks[num_whole], .to = table.blocks.back()});
  }
  return fork;
}

std::optional<SequenceCache> SequenceCache::to_be_filled(CachePools& pools, int num_tokens, const SequenceCache* lender,
                                                         int num_lent) {
  SequenceCache cache(pools);
  cache.make_room(num_tokens);
  std::vector<int> num_lent_blocks(cache.tables_.size(), 0);
  for (int group = 0; group < cache.num_groups(); ++group) {
    const bool sees_all = cache.kind(group) == CacheKind::kAttention && pools.window(group) == 0;
    const int num_blocks = cache.blocks_for(group, num_tokens);
    int& num_shared = num_lent_blocks[static_cast<std::size_t>(group)];
    if (sees_all) num_shared = num_lent / pools.block_tokens();
    const int num_own = num_blocks - num_shared - std::min(cache.first_needed(group, num_tokens), num_blocks);
    if (num_own > pools.pool(group).num_free()) return std::nullopt;
  }
  for (int group = 0; group < cache.num_groups(); ++group) {
    Table& table = cache.at(group);
    const int num_blocks = cache.blocks_for(group, num_tokens);
    table.num_left_behind = std::min(cache.first_needed(group, num_tokens), num_blocks);
    table.blocks.assign(static_cast<std::size_t>(table.num_left_behind), kNoBlock);
    for (int i = 0; i < num_lent_blocks[static_cast<std::size_t>(group)]; ++i) {
      const BlockId block = lender->at(group).blocks[static_cast<std::size_t>(i)];
      pools.pool(group).share(block);
      table.blocks.push_back(block);
    }
    while (static_cast<int>(table.blocks.size()) < num_blocks) table.blocks.push_back(*pools.pool(group).allocate());
  }
  cache.num_computed_ = num_tokens;
  return cache;
}

int SequenceCache::num_held() const {
  int num_blocks = 0;
  for (const Table& table : tables_) num_blocks += static_cast<int>(table.blocks.size()) - table.num_left_behind;
  return num_blocks;
}

int SequenceCache::capacity() const {
  int tokens = std::numeric_limits<int>::max();
  for (int group = 0; group < num_groups(); ++group) {
    tokens = std::min(tokens, tokens_in(group, static_cast<int>(at(group).blocks.size())));
  }
  return tokens;
}

int SequenceCache::reachable_capacity() const {
  int tokens = std::numeric_limits<int>::max();
  for (int group = 0; group < num_groups(); ++group) {
    const int num_blocks = static_cast<int>(at(group).blocks.size()) + pools_->pool(group).num_free();
    tokens = std::min(tokens, tokens_in(group, num_blocks));
  }
  return tokens;
}

int SequenceCache::num_missing(int group, int num_tokens) const {
  const Table& table = at(group);
  const int window = pools_->window(group);
  int num_needed = blocks_for(group, num_tokens) - table.num_left_behind;
  if (window > 0) num_needed = std::min(num_needed, blocks_spanned(window, pools_->block_tokens()));
  return num_needed - (static_cast<int>(table.blocks.size()) - table.num_left_behind);
}

int SequenceCache::num_shared(int group, int num_tokens) const {
  return std::max(whole_blocks(group, num_tokens) - first_needed(group, num_tokens), 0);
}

}  // namespace redpoll::cache
