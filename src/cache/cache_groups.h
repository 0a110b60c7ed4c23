// CacheGroup: the layers of a model that may share block tables. Knows no memory and no device.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kv_type.h"

namespace redpoll::cache {

/// What a layer remembers of the tokens before.
enum class CacheKind {
  kNone,       // nothing of its own: it reads what another layer has written
  kAttention,  // K and V of every token that one may still see; blocks of tokens
  kRecurrent,  // one state of all tokens so far; a block holds it
};

struct LayerCache {
  CacheKind kind = CacheKind::kAttention;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;                                // tokens that one sees, itself the last of them; 0: all before it too
  float softcap = 0;                             // of the scores over K, see kernels::AttentionSpec; 0: none
  kernels::KvPacking packing = {};               // of K and V
  std::optional<kernels::KvFloats> floats = {};  // of K and V before packing; see kernels::KvShape

  // kRecurrent: see kernels::StateShape.
  int conv_tokens = 0;
  int conv_channels = 0;
  int num_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
};

/// Layers that need the blocks of the same tokens, whatever a block takes in each of them: those that see all tokens,
/// those of one window, and those that have a state.
struct CacheGroup {
  CacheKind kind = CacheKind::kAttention;
  int window = 0;
  std::vector<int> layers;  // ascending indices
};

/// In the order in which each need first appears, states last. The single place that decides which layers share block
/// tables.
[[nodiscard]] std::vector<CacheGroup> make_cache_groups(const std::vector<LayerCache>& layers);

/// Blocks in which this many tokens in a row stand at most, wherever they begin.
[[nodiscard]] constexpr int blocks_spanned(int num_tokens, int block_tokens) {
  return num_tokens == 0 ? 0 : (num_tokens + block_tokens - 2) / block_tokens + 1;
}

}  // namespace redpoll::cache
