// KvCache: the memory behind the block ids: K and V of every layer for every block of a pool. Knows no sequences.
#pragma once

#include <cstddef>
#include <vector>

#include "cache/cache_groups.h"
#include "cache/sequence_cache.h"
#include "kernels/kernels.h"

namespace redpoll::cache {

struct KvCacheShape {
  std::vector<CacheGroup> groups;
  int num_blocks = 0;
  int block_tokens = 0;
};

/// Bytes that one block takes in all layers together, as this kernel set stores it.
[[nodiscard]] std::size_t bytes_per_block(const kernels::Kernels& kernels, const std::vector<CacheGroup>& groups,
                                          int block_tokens);

/// Made, used and destroyed on the engine thread; the kernels must outlive it.
class KvCache {
 public:
  KvCache(const kernels::Kernels& kernels, KvCacheShape shape);

  /// One per layer, in the layers' order; forward passes write here.
  [[nodiscard]] std::vector<kernels::KvStorage>& layers() { return layers_; }
  void copy_block(BlockCopy copy);
  /// Fresh zero-filled memory. After a forward pass has thrown, nobody knows what the old one holds.
  void reset();

 private:
  const kernels::Kernels& kernels_;
  KvCacheShape shape_;
  std::vector<kernels::KvStorage> layers_;
};

}  // namespace redpoll::cache
