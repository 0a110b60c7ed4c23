// Keys and values as ReferenceKernels store them. Internal to these.
#pragma once

#include <mlx/array.h>

#include <vector>

#include "kernels/operations.h"
#include "kernels/ragged_batch.h"

namespace redpoll::kernels {

/// Tokens [first, + num_tokens) of the blocks in `table`.
struct TokenRange {
  mx::array table;
  int first = 0;
  int num_tokens = 0;
};

/// Of the tokens of one row, each array (1, kv_heads, num_tokens, ...): one of numbers, or, by KvCodes::kMlx, codes,
/// scales and biases.
struct KeysAndValues {
  std::vector<mx::array> keys;
  std::vector<mx::array> values;

  [[nodiscard]] bool is_packed() const { return keys.size() > 1; }
};

/// What is packed by KvCodes::kOwn is unpacked, to numbers of `dtype`.
[[nodiscard]] KeysAndValues gather_tokens(const KvStorage& storage, const TokenRange& range, mx::Dtype dtype);

/// Of the row's tokens in this step, from what is kept of them unpacked.
[[nodiscard]] KeysAndValues gather_unpacked(const KvStorage& storage, const BatchRow& row);

/// x (tokens, heads * head_dim) or already split -> (tokens, heads, head_dim).
[[nodiscard]] mx::array split_by_head(const mx::array& x, int head_dim);

}  // namespace redpoll::kernels
