#include "cache/kv_cache.h"

#include <utility>

namespace redpoll::cache {
namespace {

kernels::KvStorage make_storage(const kernels::Kernels& kernels, const LayerCache& layer, int num_blocks,
                                int block_tokens) {
  return kernels.make_kv_storage({.num_blocks = num_blocks,
                                  .block_tokens = block_tokens,
                                  .num_kv_heads = layer.num_kv_heads,
                                  .head_dim = layer.head_dim,
                                  .packing = layer.packing,
                                  .floats = layer.floats});
}

kernels::StateStorage make_states(const kernels::Kernels& kernels, const LayerCache& layer, int num_states) {
  return kernels.make_state_storage({.num_states = num_states,
                                     .conv_tokens = layer.conv_tokens,
                                     .conv_channels = layer.conv_channels,
                                     .num_heads = layer.num_heads,
                                     .key_dim = layer.key_dim,
                                     .value_dim = layer.value_dim});
}

}  // namespace

std::size_t bytes_per_block(const kernels::Kernels& kernels, const std::vector<LayerCache>& layers,
                            const CacheGroup& group, int block_tokens) {
  std::size_t bytes = 0;
  for (const int layer : group.layers) {
    const LayerCache& cache = layers[static_cast<std::size_t>(layer)];
    if (group.kind == CacheKind::kRecurrent) {
      const kernels::StateStorage one = make_states(kernels, cache, 1);
      bytes += one.convolution.nbytes() + (cache.num_heads > 0 ? one.memory.nbytes() : 0);
    } else {
      bytes += make_storage(kernels, cache, 1, block_tokens).bytes_per_block();
    }
  }
  return bytes;
}

KvCache::KvCache(const kernels::Kernels& kernels, KvCacheShape shape)
    : kernels_(kernels), shape_(std::move(shape)), groups_(make_cache_groups(shape_.layers)) {
  CHECK(shape_.num_blocks.size() == groups_.size(), "each group of layers has its number of blocks");
  reset();
}

void KvCache::copy_block(BlockCopy copy) { kernels_.copy_block(pools_of(copy.group), copy.from, copy.to); }

std::vector<kernels::mx::array*> KvCache::pools_of(int group) {
  std::vector<kernels::mx::array*> pools;
  const CacheGroup& layers = groups_[static_cast<std::size_t>(group)];
  for (const int layer : layers.layers) {
    const auto at = static_cast<std::size_t>(layer);
    const auto own = layers.kind == CacheKind::kRecurrent ? states_[at].pools() : layers_[at].pools();
    pools.insert(pools.end(), own.begin(), own.end());
  }
  return pools;
}

std::size_t KvCache::block_bytes(int group) {
  std::size_t bytes = 0;
  for (const kernels::mx::array* pool : pools_of(group)) {
    bytes += pool->nbytes() / static_cast<std::size_t>(pool->shape(0));
  }
  return bytes;
}

void KvCache::read_blocks(int group, std::span<const BlockId> blocks, std::span<std::byte> out) {
  kernels_.read_blocks(pools_of(group), blocks, out);
}

void KvCache::write_blocks(int group, std::span<const BlockId> blocks, std::span<const std::byte> contents) {
  kernels_.write_blocks(pools_of(group), blocks, contents);
}

void KvCache::reset() {
  layers_.clear();  // before the new memory is asked for: both together may not fit
  states_.clear();
  layers_.resize(shape_.layers.size());
  states_.resize(shape_.layers.size());
  for (int index = 0; const CacheGroup& group : groups_) {
    const int num_blocks = shape_.num_blocks[static_cast<std::size_t>(index)];
    for (const int layer : group.layers) {
      const auto at = static_cast<std::size_t>(layer);
      if (group.kind == CacheKind::kRecurrent) {
        states_[at] = make_states(kernels_, shape_.layers[at], num_blocks);
      } else {
        layers_[at] = make_storage(kernels_, shape_.layers[at], num_blocks, shape_.block_tokens);
        layers_[at].group = index;
      }
    }
    ++index;
  }
}

}  // namespace redpoll::cache
