// Keys and values as ReferenceKernels store them. Internal to these.
#pragma once

#include <mlx/array.h>

#include "kernels/operations.h"

namespace redpoll::kernels {

/// Tokens [first, + num_tokens) of the blocks in `table`.
struct TokenRange {
  mx::array table;
  int first = 0;
  int num_tokens = 0;
};

/// (1, kv_heads, num_tokens, head_dim) each.
struct KeysAndValues {
  mx::array keys;
  mx::array values;
};

/// What is packed is unpacked, to numbers of `dtype`.
[[nodiscard]] KeysAndValues gather_tokens(const KvStorage& storage, const TokenRange& range, mx::Dtype dtype);

/// x (tokens, heads * head_dim) or already split -> (tokens, heads, head_dim).
[[nodiscard]] mx::array split_by_head(const mx::array& x, int head_dim);

}  // namespace redpoll::kernels
