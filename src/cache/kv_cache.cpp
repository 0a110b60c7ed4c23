#include "cache/kv_cache.h"

#include <cstring>
#include <utility>

namespace redpoll::cache {
namespace {

kernels::KvStorage make_storage(const kernels::Kernels& kernels, const LayerCache& layer, int num_blocks,
                                int block_tokens) {
  return kernels.make_kv_storage({.num_blocks = num_blocks,
                                  .block_tokens = block_tokens,
                                  .num_kv_heads = layer.num_kv_heads,
                                  .head_dim = layer.head_dim,
                                  .packing = layer.packing});
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

void KvCache::copy_block(BlockCopy copy) {
  const CacheGroup& group = groups_[static_cast<std::size_t>(copy.group)];
  for (const int layer : group.layers) {
    const auto at = static_cast<std::size_t>(layer);
    if (group.kind == CacheKind::kRecurrent) {
      kernels_.copy_state(states_[at], copy.from, copy.to);
    } else {
      kernels_.copy_block(layers_[at], copy.from, copy.to);
    }
  }
}

/// What the block takes in each array of the group's layers.
std::vector<std::span<std::byte>> KvCache::memory_of(int group, BlockId block) {
  std::vector<std::span<std::byte>> memory;
  const CacheGroup& layers = groups_[static_cast<std::size_t>(group)];
  for (const int layer : layers.layers) {
    const auto at = static_cast<std::size_t>(layer);
    const bool is_state = layers.kind == CacheKind::kRecurrent;
    for (kernels::mx::array* pool : is_state ? states_[at].pools() : layers_[at].pools()) {
      pool->eval();
      CHECK(pool->flags().row_contiguous, "a block stands in one piece");
      const std::size_t bytes = pool->nbytes() / static_cast<std::size_t>(pool->shape(0));
      memory.emplace_back(pool->data<std::byte>() + static_cast<std::size_t>(block) * bytes, bytes);
    }
  }
  return memory;
}

std::size_t KvCache::block_bytes(int group) {
  std::size_t bytes = 0;
  for (const auto part : memory_of(group, 0)) bytes += part.size();
  return bytes;
}

void KvCache::read_block(int group, BlockId block, std::span<std::byte> out) {
  for (const auto part : memory_of(group, block)) {
    std::memcpy(out.data(), part.data(), part.size());
    out = out.subspan(part.size());
  }
}

void KvCache::write_block(int group, BlockId block, std::span<const std::byte> contents) {
  for (const auto part : memory_of(group, block)) {
    std::memcpy(part.data(), contents.data(), part.size());
    contents = contents.subspan(part.size());
  }
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
