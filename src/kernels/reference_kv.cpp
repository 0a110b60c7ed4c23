// Writing, packing and reading keys and values in stock MLX operations.
#include "kernels/reference_kv.h"

#include <mlx/ops.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/reference.h"

namespace redpoll::kernels {
namespace {

bool begins(const BatchRow& row) { return row.num_computed == 0; }

/// The place of every token of the batch in a pool seen as (num_blocks * block_tokens) slots.
mx::array slots_of(const RaggedBatch& batch, int group) {
  std::vector<std::int32_t> slots(batch.tokens.size());
  for (const BatchRow& row : batch.rows) {
    const auto table = batch.block_table(row, group);
    for (int i = 0; i < row.num_tokens; ++i) {
      const int token = row.first_token + i;
      const int position = row.num_computed + i;
      const std::int32_t block = table[static_cast<std::size_t>(position / batch.block_tokens)];
      slots[static_cast<std::size_t>(token)] = block * batch.block_tokens + position % batch.block_tokens;
    }
  }
  return mx::array(slots.data(), {static_cast<int>(slots.size())}, mx::int32);
}

/// `pool` with the rows of `values` (tokens, kv_heads, head_dim) stored at `slots`. Takes the pool over, so that its
/// memory can be donated to the result.
mx::array scatter_tokens(mx::array pool, const mx::array& values, const mx::array& slots) {
  const mx::Shape shape = pool.shape();
  mx::array flat = mx::reshape(mx::astype(std::move(pool), values.dtype()), {shape[0] * shape[1], shape[2], shape[3]});
  return mx::reshape(mx::scatter(flat, slots, mx::expand_dims(values, 1), 0), shape);
}

/// -> (1, kv_heads, num_tokens, the pool's last axis).
mx::array gather_blocks(const mx::array& pool, const TokenRange& range) {
  const int kv_heads = pool.shape(2);
  const int width = pool.shape(3);
  const mx::array blocks = mx::take(pool, range.table, 0);  // (blocks, block_tokens, kv_heads, width)
  const mx::array flat = mx::reshape(blocks, {blocks.shape(0) * blocks.shape(1), kv_heads, width});
  const mx::array used = mx::slice(flat, {range.first, 0, 0}, {range.first + range.num_tokens, kv_heads, width});
  return mx::expand_dims(mx::transpose(used, {1, 0, 2}), 0);
}

mx::array widened(const mx::array& x) { return mx::astype(x, mx::float32); }

/// The greatest halves that are not above x.
mx::array halves_not_above(const mx::array& x) {
  const mx::array nearest = mx::astype(x, mx::float16);
  const mx::array bits = mx::view(nearest, mx::uint16);
  const mx::array one(1, mx::uint16);
  const mx::array below_zero(0x8001, mx::uint16);  // the least half there
  const mx::array sign(0x8000, mx::uint16);
  const mx::array lower =
      mx::where(mx::greater_equal(bits, sign), mx::add(bits, one),
                mx::where(mx::equal(bits, mx::array(0, mx::uint16)), below_zero, mx::subtract(bits, one)));
  return mx::where(mx::greater(widened(nearest), x), mx::view(lower, mx::float16), nearest);
}

/// The least halves that are not below x, which is not negative.
mx::array halves_not_below(const mx::array& x) {
  const mx::array nearest = mx::astype(x, mx::float16);
  const mx::array higher = mx::view(mx::add(mx::view(nearest, mx::uint16), mx::array(1, mx::uint16)), mx::float16);
  return mx::where(mx::less(widened(nearest), x), higher, nearest);
}

struct PackedTokens {
  mx::array codes;
  mx::array affines;  // the scales of a head, then its biases
};

/// x (tokens, kv_heads, head_dim), by KvCodes::kMlx.
PackedTokens quantize(const mx::array& x, const KvPacking& packing) {
  const std::vector<mx::array> parts = mx::quantize(x, packing.group_size, packing.bits);
  return {parts[0], mx::concatenate({parts[1], parts[2]}, -1)};
}

/// x (tokens, kv_heads, head_dim), by KvCodes::kOwn.
PackedTokens pack(const mx::array& x, const KvPacking& packing) {
  const int tokens = x.shape(0);
  const int kv_heads = x.shape(1);
  const mx::array most(65'504.0F);  // of halves
  const mx::array groups =
      mx::reshape(mx::clip(widened(x), mx::negative(most), most), {tokens, kv_heads, -1, packing.group_size});
  const mx::array highest(static_cast<float>(packing.highest_code()));
  const mx::array biases = halves_not_above(mx::min(groups, -1, /*keepdims=*/true));
  const mx::array least = widened(biases);
  const mx::array range = mx::maximum(mx::subtract(mx::max(groups, -1, true), least), mx::array(0.0F));
  const mx::array scales = halves_not_below(mx::divide(range, highest));
  const mx::array step = widened(scales);
  const mx::array inverse =
      mx::where(mx::greater(step, mx::array(0.0F)), mx::divide(mx::array(1.0F), step), mx::array(0.0F));
  const mx::array exact = mx::multiply(mx::subtract(groups, least), inverse);
  mx::array codes = mx::astype(mx::round(mx::clip(exact, mx::array(0.0F), highest)), mx::uint8);
  if (packing.bits == 4) {
    const mx::array pairs = mx::reshape(codes, {tokens, kv_heads, -1, 2});
    const mx::array low = mx::take(pairs, 0, -1);
    const mx::array high = mx::take(pairs, 1, -1);
    codes = mx::bitwise_or(low, mx::left_shift(high, mx::array(4, mx::uint8)));
  }
  return {mx::reshape(codes, {tokens, kv_heads, -1}),
          mx::reshape(mx::concatenate({mx::squeeze(scales, -1), mx::squeeze(biases, -1)}, -1), {tokens, kv_heads, -1})};
}

/// codes (1, kv_heads, tokens, bytes) and affines (1, kv_heads, tokens, 2 * groups) -> (1, kv_heads, tokens, head_dim).
mx::array unpack(mx::array codes, const mx::array& affines, const KvPacking& packing) {
  const int kv_heads = codes.shape(1);
  const int tokens = codes.shape(2);
  if (packing.bits == 4) {
    codes = mx::stack(
        {mx::bitwise_and(codes, mx::array(15, mx::uint8)), mx::right_shift(codes, mx::array(4, mx::uint8))}, -1);
  }
  const mx::array groups = widened(mx::reshape(codes, {1, kv_heads, tokens, -1, packing.group_size}));
  const std::vector<mx::array> affine = mx::split(mx::expand_dims(widened(affines), -1), 2, -2);
  const mx::array numbers = mx::add(mx::multiply(groups, affine[0]), affine[1]);
  return mx::reshape(numbers, {1, kv_heads, tokens, -1});
}

}  // namespace

mx::array split_by_head(const mx::array& x, int head_dim) { return mx::reshape(x, {x.shape(0), -1, head_dim}); }

KeysAndValues gather_tokens(const KvStorage& storage, const TokenRange& range, mx::Dtype dtype) {
  const auto gather = [&](const mx::array& pool, const mx::array& affine_pool) -> std::vector<mx::array> {
    const mx::array stored = gather_blocks(pool, range);
    if (storage.packing.bits == 0) return {stored};
    const mx::array affines = gather_blocks(affine_pool, range);
    if (storage.packing.codes == KvCodes::kOwn) return {mx::astype(unpack(stored, affines, storage.packing), dtype)};
    const std::vector<mx::array> affine = mx::split(affines, 2, -1);
    return {stored, affine[0], affine[1]};
  };
  return {gather(storage.keys, storage.key_affines), gather(storage.values, storage.value_affines)};
}

KeysAndValues gather_unpacked(const KvStorage& storage, const BatchRow& row) {
  const auto gather = [&row](const mx::array& heads) -> std::vector<mx::array> {
    const mx::array own =
        mx::slice(heads, {row.first_token, 0, 0}, {row.first_token + row.num_tokens, heads.shape(1), heads.shape(2)});
    return {mx::expand_dims(mx::transpose(own, {1, 0, 2}), 0)};
  };
  CHECK(storage.unpacked_keys && storage.unpacked_values, "write_kv keeps what a row that begins will see");
  return {gather(*storage.unpacked_keys), gather(*storage.unpacked_values)};
}

/// Keys and values (blocks, tokens, kv_heads, head_dim); codes two to a byte if they have 4 bits, of neighbouring
/// dimensions, or, by KvCodes::kMlx, as many as fit to 32 bits; scales and biases (blocks, tokens, kv_heads, 2 *
/// groups), the scales first.
KvStorage ReferenceKernels::make_kv_storage(const KvShape& shape) const {
  KvStorage storage;
  storage.head_dim = shape.head_dim;
  storage.packing = shape.packing;
  const auto zeros = [&](int width, mx::Dtype dtype) {
    return mx::zeros({shape.num_blocks, shape.block_tokens, shape.num_kv_heads, width}, dtype);
  };
  const FloatType unknown = keeps_types() && !is_exact_ ? FloatType::kBF16 : FloatType::kF32;
  const KvFloats floats = shape.floats.value_or(KvFloats{.keys = unknown, .values = unknown});
  if (shape.packing.bits == 0) {
    storage.keys = zeros(shape.head_dim, mlx_type(floats.keys));
    storage.values = zeros(shape.head_dim, mlx_type(floats.values));
  } else {
    const bool is_own = shape.packing.codes == KvCodes::kOwn;
    const mx::Dtype codes = is_own ? mx::uint8 : mx::uint32;
    const int num_codes = shape.head_dim * shape.packing.bits / (8 * static_cast<int>(codes.size()));
    const int num_affines = 2 * shape.head_dim / shape.packing.group_size;
    storage.keys = zeros(num_codes, codes);
    storage.values = zeros(num_codes, codes);
    storage.key_affines = zeros(num_affines, is_own ? mx::float16 : mlx_type(floats.keys));
    storage.value_affines = zeros(num_affines, is_own ? mx::float16 : mlx_type(floats.values));
  }
  return storage;
}

void ReferenceKernels::write_kv(KvStorage& storage, const mx::array& k, const mx::array& v,
                                const RaggedBatch& batch) const {
  const mx::array slots = slots_of(batch, storage.group);
  const mx::array keys = split_by_head(k, storage.head_dim);
  const mx::array values = split_by_head(v, storage.head_dim);
  const auto write = [&](mx::array& pool, mx::array& affines, const mx::array& heads) {
    if (storage.packing.bits == 0) {
      pool = scatter_tokens(std::move(pool), heads, slots);
    } else {
      const bool is_own = storage.packing.codes == KvCodes::kOwn;
      const PackedTokens packed = is_own ? pack(heads, storage.packing) : quantize(heads, storage.packing);
      pool = scatter_tokens(std::move(pool), packed.codes, slots);
      affines = scatter_tokens(std::move(affines), packed.affines, slots);
    }
  };
  write(storage.keys, storage.key_affines, keys);
  write(storage.values, storage.value_affines, values);
  storage.forget_unpacked();
  if (storage.packing.codes == KvCodes::kMlx && std::ranges::any_of(batch.rows, begins)) {
    storage.unpacked_keys = keys;
    storage.unpacked_values = values;
  }
}

}  // namespace redpoll::kernels
