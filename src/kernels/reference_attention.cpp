// Attention in stock MLX operations, which follow mlx-lm's and, over packed keys and values, mlx-optiq's.
#include <mlx/fast.h>
#include <mlx/ops.h>
#include <mlx/utils.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/reference.h"
#include "kernels/reference_kv.h"

namespace redpoll::kernels {
namespace {

mx::array capped(const mx::array& x, float cap) {
  const mx::array limit(cap, x.dtype());
  return mx::multiply(mx::tanh(mx::divide(x, limit)), limit);
}

/// Whether the tokens at positions [first, + num_queries) see those at [first_key, + num_keys): (num_queries,
/// num_keys).
mx::array visible_mask(int first, int num_queries, int first_key, int num_keys, int window) {
  const mx::array query = mx::expand_dims(mx::arange(first, first + num_queries, mx::int32), 1);
  const mx::array key = mx::expand_dims(mx::arange(first_key, first_key + num_keys, mx::int32), 0);
  mx::array before = mx::less_equal(key, query);
  if (window == 0) return before;
  return mx::logical_and(before, mx::less(query, mx::add(key, mx::array(window))));
}

/// Attention whose scores are capped: q (1, heads, queries, head_dim), k and v (1, kv_heads, keys, head_dim), mask
/// (queries, keys).
mx::array capped_attention(const mx::array& q, const mx::array& k, const mx::array& v, const AttentionSpec& spec,
                           const mx::array& mask) {
  const int kv_heads = k.shape(1);
  const int queries = q.shape(2);
  const mx::array grouped =
      mx::reshape(mx::multiply(q, mx::array(spec.scale, q.dtype())), {1, kv_heads, -1, queries, q.shape(3)});
  const mx::array scores = capped(mx::matmul(grouped, mx::swapaxes(mx::expand_dims(k, 2), -1, -2)), spec.softcap);
  const mx::array least(std::numeric_limits<float>::lowest(), scores.dtype());
  mx::array seen = mx::where(mask, scores, least);
  if (spec.sinks) {  // one more score, whose weight is dropped
    const mx::array sinks = mx::reshape(mx::astype(*spec.sinks, seen.dtype()), {1, kv_heads, -1, 1, 1});
    seen = mx::concatenate({seen, mx::broadcast_to(sinks, {1, kv_heads, sinks.shape(2), queries, 1})}, -1);
  }
  mx::array weights = mx::softmax(seen, -1, /*precise=*/true);
  if (spec.sinks) {
    mx::Shape end = weights.shape();
    end.back() = k.shape(2);
    weights = mx::slice(weights, mx::Shape(weights.ndim(), 0), end);
  }
  return mx::reshape(mx::matmul(weights, mx::expand_dims(v, 2)), q.shape());
}

/// The weights of scores (1, ..., queries, keys) beside that of each head's sink, which is dropped. As mlx-optiq sums
/// them: in float32.
mx::array softmax_beside_sinks(const mx::array& scores, const mx::array& sinks) {
  mx::Shape heads = scores.shape();
  heads.end()[-1] = heads.end()[-2] = 1;
  const mx::array sink = mx::reshape(mx::astype(sinks, mx::float32), heads);
  const mx::array wide = mx::astype(scores, mx::float32);
  const mx::array largest = mx::maximum(mx::max(wide, -1, /*keepdims=*/true), sink);
  const mx::array parts = mx::exp(mx::subtract(wide, largest));
  const mx::array whole = mx::add(mx::sum(parts, -1, /*keepdims=*/true), mx::exp(mx::subtract(sink, largest)));
  return mx::astype(mx::divide(parts, whole), scores.dtype());
}

/// Attention over what is packed by KvCodes::kMlx: q (1, heads, queries, head_dim), mask (queries, keys).
mx::array packed_attention(const mx::array& q, KeysAndValues kv, const KvPacking& packing, const AttentionSpec& spec,
                           const std::optional<mx::array>& mask) {
  const int kv_heads = kv.keys.front().shape(1);
  mx::array queries = mx::multiply(q, mx::array(spec.scale, q.dtype()));
  if (q.shape(1) > kv_heads) {  // those of a kv head side by side
    queries = mx::reshape(queries, {1, kv_heads, -1, q.shape(2), q.shape(3)});
    for (std::vector<mx::array>* parts : {&kv.keys, &kv.values}) {
      for (mx::array& part : *parts) part = mx::expand_dims(part, 2);
    }
  }
  mx::array scores = mx::quantized_matmul(queries, kv.keys[0], kv.keys[1], kv.keys[2], /*transpose=*/true,
                                          packing.group_size, packing.bits);
  if (mask) {
    const mx::array least(static_cast<float>(mx::finfo(scores.dtype()).min), scores.dtype());
    scores = mx::where(*mask, scores, least);
  }
  const mx::array weights =
      spec.sinks ? softmax_beside_sinks(scores, *spec.sinks) : mx::softmax(scores, -1, /*precise=*/true);
  return mx::reshape(mx::quantized_matmul(weights, kv.values[0], kv.values[1], kv.values[2], /*transpose=*/false,
                                          packing.group_size, packing.bits),
                     q.shape());
}

/// By how much mlx-lm's cache of a window, a ring, is turned when the row's only new token is in it: the index of the
/// token at `first_seen`. It begins anew behind the tokens that were computed many at a time, all but the prompt's
/// last, if these fill it.
int ring_index(const BatchRow& row, int window, int first_seen) {
  int filled = std::max(row.num_prompt_tokens - 1, 0);
  if (filled % kExactPromptChunk == 1) --filled;  // one alone
  const int begin = filled < window ? 0 : filled;
  const int index = (first_seen - begin) % window;
  return index < 0 ? index + window : index;
}

/// (1, kv_heads, tokens, ...), the last `count` tokens first.
mx::array turned(const mx::array& x, int count) {
  if (count == 0) return x;
  const int tokens = x.shape(2);
  const mx::Shape shape = x.shape();
  const int from = tokens - count;
  return mx::concatenate(
      {mx::slice(x, {0, 0, from, 0}, shape), mx::slice(x, {0, 0, 0, 0}, {1, shape[1], from, shape[3]})}, 2);
}

/// Tokens for which mlx-lm's cache of the row's layer has room: it grows by 256, that of a window up to this, and is
/// made anew, without room to spare, when a window sees many tokens at once. Products depend on how far heads stand
/// apart.
int cache_capacity(const BatchRow& row, int window) {
  constexpr int kStep = 256;
  const int context = row.num_computed + row.num_tokens;
  if (window == 0) return (context + kStep - 1) / kStep * kStep;
  if (row.num_tokens > 1 || context >= window) return 0;
  int capacity = std::max(row.num_prompt_tokens - 1, 0);
  while (capacity < context) capacity += std::min(kStep, window - capacity);
  return capacity;
}

/// x (1, kv_heads, tokens, ...), with the heads `capacity` tokens apart in memory, if that is more.
mx::array with_capacity(const mx::array& x, int capacity) {
  const int more = capacity - x.shape(2);
  if (more <= 0) return mx::contiguous(x);
  return mx::slice(mx::pad(x, {{0, 0}, {0, 0}, {0, more}, {0, 0}}), {0, 0, 0, 0}, x.shape());
}

/// As mlx-lm's cache of the row's layer has them in memory.
void lay_out_as_mlx_lm(KeysAndValues& kv, const BatchRow& row, int window, int first_seen) {
  const int context = row.num_computed + row.num_tokens;
  const bool is_ring = row.num_tokens == 1 && window > 0 && context >= window;
  const int count = is_ring ? ring_index(row, window, first_seen) : 0;
  const int capacity = cache_capacity(row, window);
  for (std::vector<mx::array>* parts : {&kv.keys, &kv.values}) {
    for (mx::array& part : *parts) part = with_capacity(turned(part, count), capacity);
  }
}

}  // namespace

mx::array ReferenceKernels::softcap(const mx::array& x, float cap) const { return capped(x, cap); }

mx::array ReferenceKernels::attend(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                   const BatchRow& row, const AttentionSpec& spec) const {
  // Blocks before the window of the row's first token may be anybody's by now.
  const int context = row.num_computed + row.num_tokens;
  const int first_seen = spec.window == 0 ? 0 : std::max(0, row.num_computed + 1 - spec.window);
  const int first_block = first_seen / batch.block_tokens;
  const auto stored = [&] {
    const auto table_ids = batch.block_table(row, storage.group).subspan(static_cast<std::size_t>(first_block));
    const mx::array table(table_ids.data(), {static_cast<int>(table_ids.size())}, mx::int32);
    const int skipped = first_seen - first_block * batch.block_tokens;
    return gather_tokens(storage, {table, skipped, context - first_seen}, q.dtype());
  };
  const bool sees_unpacked = storage.packing.codes == KvCodes::kMlx && row.num_computed == 0;
  KeysAndValues kv = sees_unpacked ? gather_unpacked(storage, row) : stored();
  if (is_exact_) lay_out_as_mlx_lm(kv, row, spec.window, first_seen);
  const auto mask = [&] {
    return visible_mask(row.num_computed, row.num_tokens, first_seen, context - first_seen, spec.window);
  };
  if (kv.is_packed()) {
    return packed_attention(q, std::move(kv), storage.packing, spec,
                            row.num_tokens == 1 ? std::nullopt : std::optional(mask()));
  }
  const mx::array& keys = kv.keys.front();
  const mx::array& values = kv.values.front();
  if (spec.softcap > 0) return capped_attention(q, keys, values, spec, mask());
  if (row.num_tokens == 1 || spec.window == 0 || context <= spec.window) {
    return mx::fast::scaled_dot_product_attention(q, keys, values, spec.scale, row.num_tokens == 1 ? "" : "causal", {},
                                                  spec.sinks);
  }
  return mx::fast::scaled_dot_product_attention(q, keys, values, spec.scale, "", mask(), spec.sinks);
}

mx::array ReferenceKernels::paged_attention(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                            const AttentionSpec& spec) const {
  const mx::array split = split_by_head(q, storage.head_dim);
  std::vector<mx::array> outputs;
  outputs.reserve(batch.rows.size());
  for (const BatchRow& row : batch.rows) {
    const mx::array own =
        mx::slice(split, {row.first_token, 0, 0}, {row.first_token + row.num_tokens, split.shape(1), split.shape(2)});
    const mx::array queries = mx::expand_dims(mx::transpose(own, {1, 0, 2}), 0);
    outputs.push_back(mx::transpose(mx::squeeze(attend(queries, storage, batch, row, spec), 0), {1, 0, 2}));
  }
  return mx::reshape(outputs.size() == 1 ? outputs.front() : mx::concatenate(std::move(outputs), 0), q.shape());
}

}  // namespace redpoll::kernels
