#include "kernels/reference.h"

#include <mlx/device.h>
#include <mlx/fast.h>
#include <mlx/ops.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

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

/// (1, kv_heads, tokens, head_dim), the last `count` tokens first.
mx::array turned(const mx::array& x, int count) {
  const int tokens = x.shape(2);
  if (count == 0) return x;
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

/// x (1, kv_heads, tokens, head_dim), with the heads `capacity` tokens apart in memory, if that is more.
mx::array with_capacity(const mx::array& x, int capacity) {
  const int more = capacity - x.shape(2);
  if (more <= 0) return mx::contiguous(x);
  return mx::slice(mx::pad(x, {{0, 0}, {0, 0}, {0, more}, {0, 0}}), {0, 0, 0, 0}, x.shape());
}

}  // namespace

mx::array ReferenceKernels::rms_norm(const mx::array& x, const mx::array& weight, float eps) const {
  return mx::fast::rms_norm(x, weight, eps);
}

mx::array ReferenceKernels::layer_norm(const mx::array& x, const mx::array& weight, const mx::array& bias,
                                       float eps) const {
  return mx::fast::layer_norm(x, weight, bias, eps);
}

ResidualNorm ReferenceKernels::add_rms_norm(const mx::array& x, const mx::array& residual, const mx::array& weight,
                                            float eps) const {
  mx::array sum = add(x, residual);
  mx::array normalized = mx::fast::rms_norm(sum, weight, eps);
  return {std::move(sum), std::move(normalized)};
}

mx::array ReferenceKernels::add(const mx::array& x, const mx::array& y) const {
  if (x.dtype() != mx::float16) return mx::add(x, y);
  // The largest of Gemma 3's sums are too large for float16.
  const mx::array most(65'504.0F);
  const mx::array sum = mx::add(mx::astype(x, mx::float32), mx::astype(y, mx::float32));
  return mx::astype(mx::clip(sum, mx::negative(most), most), mx::float16);
}

mx::array ReferenceKernels::add_bias(const mx::array& x, const mx::array& bias) const { return mx::add(x, bias); }

mx::array ReferenceKernels::gate_multiply(const mx::array& gate, const mx::array& up, GateActivation activation) const {
  switch (activation) {
    case GateActivation::kSilu: return fused_.silu_multiply({gate, up})[0];
    case GateActivation::kPreciseSilu: return fused_.precise_silu_multiply({gate, up})[0];
    case GateActivation::kClampedSilu: return fused_.clamped_silu_multiply({gate, up})[0];
    case GateActivation::kGeluTanh: return mx::multiply(gelu_tanh(gate), up);
    case GateActivation::kFusedGeluTanh: return fused_.gelu_multiply({gate, up})[0];
    case GateActivation::kSigmoid: return mx::multiply(mx::sigmoid(gate), up);
    case GateActivation::kIdentity: break;
  }
  return mx::multiply(gate, up);
}

mx::array ReferenceKernels::scale(const mx::array& x, float factor) const {
  return mx::multiply(x, mx::array(factor, x.dtype()));
}

mx::array ReferenceKernels::divide(const mx::array& x, float divisor) const {
  return mx::divide(x, mx::array(divisor, x.dtype()));
}

mx::array ReferenceKernels::gelu_tanh(const mx::array& x) const { return fused_.gelu({x})[0]; }

mx::array ReferenceKernels::softcap(const mx::array& x, float cap) const { return capped(x, cap); }

mx::array ReferenceKernels::rope(const mx::array& x, const RaggedBatch& batch, const RopeSpec& spec) const {
  mx::array split = split_by_head(x, spec.head_dim);  // (tokens, heads, head_dim)
  const int heads = split.shape(1);
  if (spec.scale != 1) {
    const mx::Shape end{split.shape(0), heads, spec.dims};
    const mx::array scaled = mx::multiply(mx::slice(split, {0, 0, 0}, end), mx::array(spec.scale, x.dtype()));
    split = mx::slice_update(split, scaled, {0, 0, 0}, end);
  }
  std::optional<mx::array> periods;
  if (!spec.base) periods = mx::array(spec.periods.data(), {static_cast<int>(spec.periods.size())}, mx::float32);
  std::vector<mx::array> outputs;
  for (const BatchRow& row : batch.rows) {
    const mx::array own =
        mx::slice(split, {row.first_token, 0, 0}, {row.first_token + row.num_tokens, heads, spec.head_dim});
    const mx::array rotated =
        mx::fast::rope(mx::expand_dims(mx::transpose(own, {1, 0, 2}), 0), spec.dims, spec.interleaved, spec.base,
                       spec.position_scale, row.num_computed, periods);
    outputs.push_back(mx::transpose(mx::squeeze(rotated, 0), {1, 0, 2}));
  }
  return mx::reshape(outputs.size() == 1 ? outputs.front() : mx::concatenate(std::move(outputs), 0), x.shape());
}

mx::array ReferenceKernels::paged_attention(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                            const AttentionSpec& spec) const {
  const mx::array split = split_by_head(q, storage.head_dim);
  std::vector<mx::array> outputs;
  outputs.reserve(batch.rows.size());
  for (const BatchRow& row : batch.rows) {
    // Blocks before the window of the row's first token may be anybody's by now.
    const int context = row.num_computed + row.num_tokens;
    const int first_seen = spec.window == 0 ? 0 : std::max(0, row.num_computed + 1 - spec.window);
    const int first_block = first_seen / batch.block_tokens;
    const auto table_ids = batch.block_table(row, storage.group).subspan(static_cast<std::size_t>(first_block));
    const mx::array table(table_ids.data(), {static_cast<int>(table_ids.size())}, mx::int32);
    const int skipped = first_seen - first_block * batch.block_tokens;
    auto [keys, values] = gather_tokens(storage, {table, skipped, context - first_seen}, q.dtype());
    if (is_exact_ && row.num_tokens == 1 && spec.window > 0 && context >= spec.window) {
      const int index = ring_index(row, spec.window, first_seen);
      keys = turned(keys, index);
      values = turned(values, index);
    }
    if (is_exact_) {
      keys = with_capacity(keys, cache_capacity(row, spec.window));
      values = with_capacity(values, cache_capacity(row, spec.window));
    }
    const mx::array queries =
        mx::expand_dims(mx::transpose(mx::slice(split, {row.first_token, 0, 0},
                                                {row.first_token + row.num_tokens, split.shape(1), split.shape(2)}),
                                      {1, 0, 2}),
                        0);
    const auto mask = [&] {
      return visible_mask(row.num_computed, row.num_tokens, first_seen, context - first_seen, spec.window);
    };
    mx::array attended = queries;
    if (spec.softcap > 0) {
      attended = capped_attention(queries, keys, values, spec, mask());
    } else if (row.num_tokens == 1 || spec.window == 0 || context <= spec.window) {
      attended = mx::fast::scaled_dot_product_attention(queries, keys, values, spec.scale,
                                                        row.num_tokens == 1 ? "" : "causal", {}, spec.sinks);
    } else {
      attended = mx::fast::scaled_dot_product_attention(queries, keys, values, spec.scale, "", mask(), spec.sinks);
    }
    outputs.push_back(mx::transpose(mx::squeeze(attended, 0), {1, 0, 2}));
  }
  return mx::reshape(outputs.size() == 1 ? outputs.front() : mx::concatenate(std::move(outputs), 0), q.shape());
}

/// 0 * x is NaN of what is not finite, and so is every sum with it.
mx::array ReferenceKernels::finite_rows(const mx::array& x) const {
  const mx::array zero(0.0F, x.dtype());
  return mx::equal(mx::sum(mx::multiply(x, zero), -1), zero);
}

mx::array ReferenceKernels::take_rows(const mx::array& x, const std::vector<std::int32_t>& rows) const {
  return mx::take(x, mx::array(rows.data(), {static_cast<int>(rows.size())}, mx::int32), 0);
}

mx::array ReferenceKernels::take_columns(const mx::array& x, int first, int count) const {
  return mx::slice(x, {0, first}, {x.shape(0), first + count});
}

}  // namespace redpoll::kernels
