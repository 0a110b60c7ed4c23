// KvCache: the memory behind the block ids: K and V of every layer for every block of its group's pool, or states.
// Knows no sequences.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cache/cache_groups.h"
#include "cache/sequence_cache.h"
#include "kernels/kernels.h"

namespace redpoll::cache {

struct KvCacheShape {
  std::vector<LayerCache> layers;
  std::vector<int> num_blocks;  // by group of make_cache_groups(layers)
  int block_tokens = 0;
};

/// Bytes that one block of the group takes in all its layers together, as this kernel set stores it.
[[nodiscard]] std::size_t bytes_per_block(const kernels::Kernels& kernels, const std::vector<LayerCache>& layers,
                                          const CacheGroup& group, int block_tokens);

/// Made, used and destroyed on the engine thread; the kernels must outlive it.
class KvCache {
 public:
  KvCache(const kernels::Kernels& kernels, KvCacheShape shape);

  /// One per layer, in the layers' order, empty where a layer has none of its own; forward passes write here.
  [[nodiscard]] std::vector<kernels::KvStorage>& layers() { return layers_; }
  [[nodiscard]] const std::vector<kernels::KvStorage>& layers() const { return layers_; }
  [[nodiscard]] std::vector<kernels::StateStorage>& states() { return states_; }
  void copy_block(BlockCopy copy);
  /// Bytes of a block of the group, in all its layers.
  [[nodiscard]] std::size_t block_bytes(int group);
  /// Contents of blocks as they stand in the device's memory: block_bytes bytes for each, a layer after the other.
  void read_blocks(int group, std::span<const BlockId> blocks, std::span<std::byte> out);
  void write_blocks(int group, std::span<const BlockId> blocks, std::span<const std::byte> contents);
  /// Fresh zero-filled memory. After a forward pass has thrown, nobody knows what the old one holds.
  void reset();

 private:
  [[nodiscard]] std::vector<kernels::mx::array*> pools_of(int group);

  const kernels::Kernels& kernels_;
  KvCacheShape shape_;
  std::vector<CacheGroup> groups_;
  std::vector<kernels::KvStorage> layers_;
  std::vector<kernels::StateStorage> states_;
};

}  // namespace redpoll::cache
