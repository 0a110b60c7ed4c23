#include "cache/kv_cache.h"

#include <utility>

namespace redpoll::cache {
namespace {

kernels::KvStorage make_storage(const kernels::Kernels& kernels, const LayerCache& layer, int num_blocks,
                                int block_tokens) {
  return kernels.make_kv_storage({.num_blocks = num_blocks,
                                  .block_tokens = block_tokens,
                                  .num_kv_heads = layer.num_kv_heads,
                                  .head_dim = layer.head_dim});
}

}  // namespace

std::size_t bytes_per_block(const kernels::Kernels& kernels, const std::vector<LayerCache>& layers,
                            const CacheGroup& group, int block_tokens) {
  std::size_t bytes = 0;
  for (const int layer : group.layers) {
    const kernels::KvStorage one = make_storage(kernels, layers[static_cast<std::size_t>(layer)], 1, block_tokens);
    bytes += one.keys.nbytes() + one.values.nbytes();
  }
  return bytes;
}

KvCache::KvCache(const kernels::Kernels& kernels, KvCacheShape shape)
    : kernels_(kernels), shape_(std::move(shape)), groups_(make_cache_groups(shape_.layers)) {
  CHECK(shape_.num_blocks.size() == groups_.size(), "each group of layers has its number of blocks");
  reset();
}

void KvCache::copy_block(BlockCopy copy) {
  for (const int layer : groups_[static_cast<std::size_t>(copy.group)].layers) {
    kernels_.copy_block(layers_[static_cast<std::size_t>(layer)], copy.from, copy.to);
  }
}

void KvCache::reset() {
  layers_.clear();  // before the new memory is asked for: both together may not fit
  layers_.resize(shape_.layers.size());
  for (int index = 0; const CacheGroup& group : groups_) {
    for (const int layer : group.layers) {
      const auto at = static_cast<std::size_t>(layer);
      layers_[at] = make_storage(kernels_, shape_.layers[at], shape_.num_blocks[static_cast<std::size_t>(index)],
                                 shape_.block_tokens);
      layers_[at].group = index;
    }
    ++index;
  }
}

}  // namespace redpoll::cache
