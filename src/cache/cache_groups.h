// CacheGroup: the layers of a model whose caches have the same kind and shape. Knows no memory and no device.
#pragma once

#include <vector>

namespace redpoll::cache {

/// What a layer remembers of the tokens before. Sliding windows and recurrent states are further kinds, with rules of
/// their own for when blocks are freed; they come with the first model that needs them.
enum class CacheKind {
  kFullAttention,  // K and V of every token; blocks grow with the sequence
};

struct LayerCache {
  CacheKind kind = CacheKind::kFullAttention;
  int num_kv_heads = 0;
  int head_dim = 0;

  bool operator==(const LayerCache&) const = default;
};

struct CacheGroup {
  LayerCache shape;
  std::vector<int> layers;  // ascending indices
};

/// Layers by what they need, in the order in which each need first appears. The single place that decides which
/// layers may share block tables.
[[nodiscard]] std::vector<CacheGroup> make_cache_groups(const std::vector<LayerCache>& layers);

}  // namespace redpoll::cache
