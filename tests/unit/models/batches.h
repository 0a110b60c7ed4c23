// Ragged batches for driving a model without an engine: each row's blocks are given out in order.
#pragma once

#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "kernels/kernels.h"

namespace redpoll::test {

inline constexpr int kBlockTokens = 8;  // small, so that short prompts cross block edges

/// A sequence being fed: its tokens, how many are computed, and its blocks.
struct FedSequence {
  std::vector<TokenId> tokens;
  int num_computed = 0;
  std::vector<std::int32_t> blocks;
  int state = 0;  // of recurrent layers
  int num_prompt_tokens = 0;
};

/// Adds the next `num_tokens` tokens of `sequence` to `batch`, wanting logits for each of them.
inline void feed(kernels::RaggedBatch& batch, FedSequence& sequence, int num_tokens) {
  batch.block_tokens = kBlockTokens;
  batch.rows.push_back({.first_token = batch.num_tokens(),
                        .num_tokens = num_tokens,
                        .num_computed = sequence.num_computed,
                        .first_block = static_cast<int>(batch.block_ids.size()),
                        .num_blocks = static_cast<int>(sequence.blocks.size()),
                        .num_prompt_tokens = sequence.num_prompt_tokens,
                        .state = sequence.state});
  batch.block_ids.insert(batch.block_ids.end(), sequence.blocks.begin(), sequence.blocks.end());
  for (int i = 0; i < num_tokens; ++i) {
    batch.logit_rows.push_back(batch.num_tokens());
    batch.positions.push_back(sequence.num_computed);
    batch.tokens.push_back(sequence.tokens[static_cast<std::size_t>(sequence.num_computed++)]);
  }
}

/// A cache with `num_blocks` blocks for each group, and states; one table serves all groups.
inline cache::KvCache make_cache(const kernels::Kernels& kernels, const std::vector<cache::LayerCache>& layers,
                                 int num_blocks) {
  const std::size_t num_groups = cache::make_cache_groups(layers).size();
  cache::KvCache cache(
      kernels, {.layers = layers, .num_blocks = std::vector(num_groups, num_blocks), .block_tokens = kBlockTokens});
  for (kernels::KvStorage& layer : cache.layers()) layer.group = 0;
  return cache;
}

/// Enough blocks for all tokens: first, first + stride, ...; a stride over 1 leaves room for other sequences between.
inline std::vector<std::int32_t> make_blocks(std::size_t num_tokens, std::int32_t first, std::int32_t stride) {
  std::vector<std::int32_t> blocks;
  for (std::size_t i = 0; i * kBlockTokens < num_tokens; ++i) {
    blocks.push_back(first + static_cast<std::int32_t>(i) * stride);
  }
  return blocks;
}

}  // namespace redpoll::test
