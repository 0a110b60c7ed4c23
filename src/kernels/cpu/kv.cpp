// The block pool of one layer in the layout of CpuKernels. Writes go to the pool's memory in place.
#include <algorithm>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

int padded(int n) { return (n + kPadding - 1) / kPadding * kPadding; }

/// Writes one token's heads of k and v (kv_heads, head_dim) to a place in a block.
struct TokenWriter {
  float* keys;
  float* values;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t key_stride;  // padded block_tokens
  std::int64_t block_tokens;
  std::int64_t value_stride;  // padded head_dim

  void write(std::int64_t block, std::int64_t place, const float* k, const float* v) const {
    for (std::int64_t head = block * kv_heads; head < (block + 1) * kv_heads; ++head) {
      float* key = keys + head * head_dim * key_stride + place;
      for (std::int64_t d = 0; d < head_dim; ++d) key[d * key_stride] = k[d];
      std::copy_n(v, head_dim, values + (head * block_tokens + place) * value_stride);
      k += head_dim;
      v += head_dim;
    }
  }
};

}  // namespace

KvStorage CpuKernels::make_kv_storage(const KvShape& shape) const {
  HostArray keys = make_zeros({shape.num_blocks, shape.num_kv_heads, shape.head_dim, padded(shape.block_tokens)});
  HostArray values = make_zeros({shape.num_blocks, shape.num_kv_heads, shape.block_tokens, padded(shape.head_dim)});
  return {std::move(keys.array), std::move(values.array)};
}

void CpuKernels::write_kv(KvStorage& storage, const mx::array& k, const mx::array& v, const RaggedBatch& batch) const {
  const HostView key_input(k);
  const HostView value_input(v);
  const TokenWriter writer{.keys = storage.keys.data<float>(),
                           .values = storage.values.data<float>(),
                           .kv_heads = k.shape(1),
                           .head_dim = k.shape(2),
                           .key_stride = storage.keys.shape(3),
                           .block_tokens = storage.values.shape(2),
                           .value_stride = storage.values.shape(3)};
  const std::int64_t dim = writer.kv_heads * writer.head_dim;
  for (const BatchRow& row : batch.rows) {
    const auto table = batch.block_table(row);
    context_->team.parallel_for(row.num_tokens, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t position = row.num_computed + t;
        const std::int64_t at = (row.first_token + t) * dim;
        writer.write(table[static_cast<std::size_t>(position / batch.block_tokens)], position % batch.block_tokens,
                     key_input.data() + at, value_input.data() + at);
      }
    });
  }
}

void CpuKernels::copy_block(KvStorage& storage, int from, int to) const {
  for (mx::array* pool : {&storage.keys, &storage.values}) {
    const auto block = static_cast<std::int64_t>(pool->size()) / pool->shape(0);
    std::copy_n(pool->data<float>() + from * block, block, pool->data<float>() + to * block);
  }
}

}  // namespace redpoll::kernels::cpu
