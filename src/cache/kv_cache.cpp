#include "cache/kv_cache.h"

#include <algorithm>
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

std::size_t bytes_per_block(const kernels::Kernels& kernels, const std::vector<CacheGroup>& groups, int block_tokens) {
  std::size_t bytes = 0;
  for (const CacheGroup& group : groups) {
    const kernels::KvStorage one = make_storage(kernels, group.shape, 1, block_tokens);
    bytes += (one.keys.nbytes() + one.values.nbytes()) * group.layers.size();
  }
  return bytes;
}

KvCache::KvCache(const kernels::Kernels& kernels, KvCacheShape shape) : kernels_(kernels), shape_(std::move(shape)) {
  reset();
}

void KvCache::copy_block(BlockCopy copy) {
  for (kernels::KvStorage& layer : layers_) kernels_.copy_block(layer, copy.from, copy.to);
}

void KvCache::reset() {
  layers_.clear();  // before the new memory is asked for: both together may not fit
  std::vector<std::pair<int, const LayerCache*>> order;
  for (const CacheGroup& group : shape_.groups) {
    for (const int layer : group.layers) order.emplace_back(layer, &group.shape);
  }
  std::ranges::sort(order);
  layers_.reserve(order.size());
  for (const auto& [layer, shape] : order) {
    layers_.push_back(make_storage(kernels_, *shape, shape_.num_blocks, shape_.block_tokens));
  }
}

}  // namespace redpoll::cache
