#include "cache/cache_pools.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace redpoll::cache {

CachePools::CachePools(int block_tokens, std::span<const GroupPool> groups)
    : block_tokens_(block_tokens), groups_(groups.begin(), groups.end()) {
  CHECK(block_tokens > 0, "a block holds at least one token");
  for (const GroupPool& group : groups) pools_.emplace_back(group.num_blocks);
}

int CachePools::num_used() const {
  return std::transform_reduce(pools_.begin(), pools_.end(), 0, std::plus<>(), std::mem_fn(&BlockPool::num_used));
}

bool CachePools::can_go_back(int num_tokens) const {
  return std::ranges::all_of(groups_, [num_tokens](const GroupPool& group) {
    return group.kind == CacheKind::kAttention && (group.window == 0 || group.window >= num_tokens);
  });
}

Status CachePools::check_integrity() const {
  for (const BlockPool& pool : pools_) RETURN_IF_ERROR(pool.check_integrity());
  return {};
}

}  // namespace redpoll::cache
