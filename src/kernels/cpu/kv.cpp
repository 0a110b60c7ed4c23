// The block pool of one layer in the layout of CpuKernels. Writes go to the pool's memory in place.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

int padded(int n) { return (n + kPadding - 1) / kPadding * kPadding; }

/// Writes one token's heads of k and v (kv_heads, head_dim) to a place in a block.
template <typename T>
class TokenWriter {
 public:
  TokenWriter(const Loops& loops, KvStorage& storage)
      : loops_(loops),
        keys_(reinterpret_cast<T*>(storage.keys.data<std::byte>())),
        values_(reinterpret_cast<T*>(storage.values.data<std::byte>())),
        kv_heads_(storage.keys.shape(1)),
        head_dim_(storage.keys.shape(2)),
        key_stride_(storage.keys.shape(3)),
        block_tokens_(storage.values.shape(2)),
        value_stride_(storage.values.shape(3)),
        group_(storage.group) {}

  [[nodiscard]] std::int64_t dim() const { return kv_heads_ * head_dim_; }
  /// Whose block tables say where tokens go.
  [[nodiscard]] int group() const { return group_; }

  /// Fetches what `write` will touch: a cache line for every dimension of every head, which the processor would wait
  /// for one by one.
  void fetch(std::int64_t block, std::int64_t place) const {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (std::int64_t head = block * kv_heads_; head < (block + 1) * kv_heads_; ++head) {
      const T* key = keys_ + head * head_dim_ * key_stride_ + place;
      for (std::int64_t d = 0; d < head_dim_; ++d) __builtin_prefetch(key + d * key_stride_, 1);
      const T* value = values_ + (head * block_tokens_ + place) * value_stride_;
      for (std::int64_t d = 0; d < head_dim_; d += kLine) __builtin_prefetch(value + d, 1);
    }
  }

  void write(std::int64_t block, std::int64_t place, const float* k, const float* v) const {
    for (std::int64_t head = block * kv_heads_; head < (block + 1) * kv_heads_; ++head) {
      write_key(k, keys_ + head * head_dim_ * key_stride_ + place);
      convert(v, head_dim_, values_ + (head * block_tokens_ + place) * value_stride_);
      k += head_dim_;
      v += head_dim_;
    }
  }

 private:
  /// The elements of a key lie key_stride_ apart.
  void write_key(const float* k, T* out) const {
    constexpr std::int64_t kAtOnce = 64;
    T stored[kAtOnce];
    for (std::int64_t first = 0; first < head_dim_; first += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, head_dim_ - first);
      convert(k + first, count, stored);
      for (std::int64_t i = 0; i < count; ++i) out[(first + i) * key_stride_] = stored[i];
    }
  }

  void convert(const float* x, std::int64_t count, T* out) const {
    if constexpr (std::is_same_v<T, Half>) {
      loops_.to_halves(x, count, out);
    } else {
      std::copy_n(x, count, out);
    }
  }

  const Loops& loops_;
  T* keys_;
  T* values_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t key_stride_;  // padded block_tokens
  std::int64_t block_tokens_;
  std::int64_t value_stride_;  // padded head_dim
  int group_;
};

template <typename T>
void write_rows(ThreadTeam& team, const TokenWriter<T>& writer, const HostView& k, const HostView& v,
                const RaggedBatch& batch) {
  const std::int64_t dim = writer.dim();
  for (const BatchRow& row : batch.rows) {
    if (row.num_tokens > 1) continue;  // the tokens of a chunk share lines
    writer.fetch(
        batch.block_table(row, writer.group())[static_cast<std::size_t>(row.num_computed / batch.block_tokens)],
        row.num_computed % batch.block_tokens);
  }
  for (const BatchRow& row : batch.rows) {
    const auto table = batch.block_table(row, writer.group());
    team.parallel_for(row.num_tokens, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t position = row.num_computed + t;
        const std::int64_t at = (row.first_token + t) * dim;
        writer.write(table[static_cast<std::size_t>(position / batch.block_tokens)], position % batch.block_tokens,
                     k.data() + at, v.data() + at);
      }
    });
  }
}

}  // namespace

KvStorage CpuKernels::make_kv_storage(const KvShape& shape) const {
  const mx::Dtype dtype = context_->kv_type == KvType::kF16 ? mx::float16 : mx::float32;
  return {make_zeros({shape.num_blocks, shape.num_kv_heads, shape.head_dim, padded(shape.block_tokens)}, dtype),
          make_zeros({shape.num_blocks, shape.num_kv_heads, shape.block_tokens, padded(shape.head_dim)}, dtype)};
}

void CpuKernels::write_kv(KvStorage& storage, const mx::array& k, const mx::array& v, const RaggedBatch& batch) const {
  const HostView keys(k);
  const HostView values(v);
  if (context_->kv_type == KvType::kF16) {
    write_rows(context_->team, TokenWriter<Half>(context_->loops, storage), keys, values, batch);
  } else {
    write_rows(context_->team, TokenWriter<float>(context_->loops, storage), keys, values, batch);
  }
}

void CpuKernels::copy_block(KvStorage& storage, int from, int to) const {
  for (mx::array* pool : {&storage.keys, &storage.values}) {
    const std::size_t block_bytes = pool->nbytes() / static_cast<std::size_t>(pool->shape(0));
    auto* bytes = pool->data<std::byte>();
    std::memcpy(bytes + static_cast<std::size_t>(to) * block_bytes,
                bytes + static_cast<std::size_t>(from) * block_bytes, block_bytes);
  }
}

}  // namespace redpoll::kernels::cpu
