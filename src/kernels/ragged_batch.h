// RaggedBatch: the tokens of one step, of all scheduled sequences, as one flat list without padding. Plain host data;
// each kernel set copies to its device what it needs. It knows nothing of requests or sampling.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace redpoll::kernels {

/// One sequence's share of the batch: tokens [first_token, first_token + num_tokens) of the flat arrays, which follow
/// `num_computed` tokens whose K and V are already in the cache. Its block tables, one for each group of layers, begin
/// at block_ids[first_block], one after the other, `num_blocks` blocks of `block_tokens` tokens each, and hold
/// num_computed + num_tokens tokens once this step has run. A block that none of the step's tokens sees may be -1.
struct BatchRow {
  int first_token = 0;
  int num_tokens = 0;
  int num_computed = 0;
  int first_block = 0;
  int num_blocks = 0;
  int num_prompt_tokens = 0;  // of the sequence, which the exact tier's order of sums depends on
  int state = -1;  // where recurrent layers keep the row's state, which a row without computed tokens has none of yet
};

/// All vectors are reused from step to step; `clear` keeps their memory.
struct RaggedBatch {
  std::vector<TokenId> tokens;           // (num_tokens)
  std::vector<std::int32_t> positions;   // (num_tokens) place of each token in its own sequence, from 0
  std::vector<BatchRow> rows;            // one per sequence
  std::vector<std::int32_t> block_ids;   // block tables of all rows, one after the other
  std::vector<std::int32_t> logit_rows;  // ascending indices into tokens: where logits are wanted
  int block_tokens = 0;                  // tokens per block
  bool has_unseen_tokens = false;        // whose logits nobody looks at: see nn::ForwardContext

  [[nodiscard]] int num_tokens() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] std::span<const std::int32_t> block_table(const BatchRow& row, int group) const {
    return std::span(block_ids).subspan(static_cast<std::size_t>(row.first_block + group * row.num_blocks),
                                        static_cast<std::size_t>(row.num_blocks));
  }
  void clear() {
    tokens.clear();
    positions.clear();
    rows.clear();
    block_ids.clear();
    logit_rows.clear();
    has_unseen_tokens = false;
  }
};

}  // namespace redpoll::kernels
