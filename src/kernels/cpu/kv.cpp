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

/// The same for codes.
class PackedTokenWriter {
 public:
  PackedTokenWriter(const Loops& loops, KvStorage& storage)
      : loops_(loops),
        packing_(storage.packing),
        keys_(reinterpret_cast<std::uint8_t*>(storage.keys.data<std::byte>())),
        values_(reinterpret_cast<std::uint8_t*>(storage.values.data<std::byte>())),
        key_affines_(reinterpret_cast<Half*>(storage.key_affines.data<std::byte>())),
        value_affines_(reinterpret_cast<Half*>(storage.value_affines.data<std::byte>())),
        kv_heads_(storage.keys.shape(1)),
        head_dim_(storage.head_dim),
        key_rows_(storage.keys.shape(2)),
        key_stride_(storage.keys.shape(3)),
        block_tokens_(storage.values.shape(2)),
        value_stride_(storage.values.shape(3)),
        group_(storage.group) {}

  [[nodiscard]] std::int64_t dim() const { return kv_heads_ * head_dim_; }
  [[nodiscard]] int group() const { return group_; }

  void fetch(std::int64_t block, std::int64_t place) const {
    constexpr std::int64_t kLine = 64;
    const std::int64_t affines = 2 * head_dim_ / packing_.group_size;
    for (std::int64_t head = block * kv_heads_; head < (block + 1) * kv_heads_; ++head) {
      const std::uint8_t* key = keys_ + head * key_rows_ * key_stride_ + place;
      for (std::int64_t i = 0; i < key_rows_; ++i) __builtin_prefetch(key + i * key_stride_, 1);
      const std::uint8_t* value = values_ + (head * block_tokens_ + place) * value_stride_;
      for (std::int64_t i = 0; i < value_stride_; i += kLine) __builtin_prefetch(value + i, 1);
      for (std::int64_t i = 0; i < affines; ++i) {
        const std::int64_t at = (head * affines + i) * key_stride_ + place;
        __builtin_prefetch(key_affines_ + at, 1);
        __builtin_prefetch(value_affines_ + at, 1);
      }
    }
  }

  void write(std::int64_t block, std::int64_t place, const float* k, const float* v) const {
    const std::int64_t groups = head_dim_ / packing_.group_size;
    for (std::int64_t head = block * kv_heads_; head < (block + 1) * kv_heads_; ++head) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t affine = (head * groups + g) * 2 * key_stride_ + place;
        write_key_group(k, g, keys_ + head * key_rows_ * key_stride_ + place, key_affines_ + affine);
        write_value_group(v, g, values_ + (head * block_tokens_ + place) * value_stride_, value_affines_ + affine);
        k += packing_.group_size;
        v += packing_.group_size;
      }
    }
  }

 private:
  /// Dimensions whose codes of 4 bits share 16 bytes of a value.
  static constexpr std::int64_t kShared = 32;

  /// The codes of one group, followed by zeros up to a multiple of kShared.
  class Codes {
   public:
    Codes(const PackedTokenWriter& writer, const float* x, Half* affine) {
      const std::int64_t size = writer.packing_.group_size;
      const GroupAffine found =
          writer.loops_.pack_group(x, writer.packing_.group_size, writer.packing_.highest_code(), codes_);
      std::fill(codes_ + size, codes_ + (size + kShared - 1) / kShared * kShared, std::uint8_t{0});
      affine[0] = found.scale;
      affine[writer.key_stride_] = found.bias;
    }

    [[nodiscard]] std::uint8_t operator[](std::int64_t i) const { return codes_[i]; }
    [[nodiscard]] std::uint8_t pair(std::int64_t low, std::int64_t high) const {
      return static_cast<std::uint8_t>(codes_[low] | codes_[high] << 4U);
    }

   private:
    std::uint8_t codes_[kMaxKvGroup];
  };

  /// Rows of keys lie key_stride_ apart: see the layouts in make_kv_storage.
  void write_key_group(const float* k, std::int64_t g, std::uint8_t* out, Half* affine) const {
    const Codes codes(*this, k, affine);
    const std::int64_t first = g * packing_.group_size;
    if (packing_.bits == 8) {
      for (std::int64_t i = 0; i < packing_.group_size; ++i) out[(first + i) * key_stride_] = codes[i];
    } else {
      for (std::int64_t i = 0; i < packing_.group_size; i += 2) {
        out[(first + i) / 2 * key_stride_] = codes.pair(i, i + 1);
      }
    }
  }

  void write_value_group(const float* v, std::int64_t g, std::uint8_t* out, Half* affine) const {
    const Codes codes(*this, v, affine);
    const std::int64_t first = g * packing_.group_size;
    if (packing_.bits == 8) {
      for (std::int64_t i = 0; i < packing_.group_size; ++i) out[first + i] = codes[i];
    } else {
      for (std::int64_t i = 0; i < packing_.group_size; i += kShared) {
        std::uint8_t* bytes = out + (first + i) / 2;
        for (std::int64_t j = 0; j < kShared / 2; ++j) bytes[j] = codes.pair(i + j, i + j + kShared / 2);
      }
    }
  }

  const Loops& loops_;
  KvPacking packing_;
  std::uint8_t* keys_;
  std::uint8_t* values_;
  Half* key_affines_;
  Half* value_affines_;
  std::int64_t kv_heads_;
  std::int64_t head_dim_;
  std::int64_t key_rows_;
  std::int64_t key_stride_;  // padded block_tokens
  std::int64_t block_tokens_;
  std::int64_t value_stride_;  // bytes
  int group_;
};

template <typename Writer>
void write_rows(ThreadTeam& team, const Writer& writer, const HostView& k, const HostView& v,
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

/// Keys (blocks, kv_heads, head_dim, tokens), values (blocks, kv_heads, tokens, head_dim), the last axis padded. Codes
/// take a byte each, or half of one, shared along head_dim as products.inc says; scales and biases stand by
/// token as those of keys do: (blocks, kv_heads, groups, 2, tokens).
KvStorage CpuKernels::make_kv_storage(const KvShape& shape) const {
  const auto& [num_blocks, block_tokens, kv_heads, head_dim, packing, floats] = shape;
  KvStorage storage;
  storage.head_dim = head_dim;
  storage.packing = packing;
  if (packing.bits == 0) {
    const mx::Dtype dtype = context_->kv_type == KvType::kF16 ? mx::float16 : mx::float32;
    storage.keys = make_zeros({num_blocks, kv_heads, head_dim, padded(block_tokens)}, dtype);
    storage.values = make_zeros({num_blocks, kv_heads, block_tokens, padded(head_dim)}, dtype);
    return storage;
  }
  const int per_byte = 8 / packing.bits;
  const int value_bytes = padded((head_dim + per_byte - 1) / per_byte);
  storage.keys = make_zeros({num_blocks, kv_heads, head_dim / per_byte, padded(block_tokens)}, mx::uint8);
  storage.values = make_zeros({num_blocks, kv_heads, block_tokens, value_bytes}, mx::uint8);
  const mx::Shape affines{num_blocks, kv_heads, head_dim / packing.group_size, 2, padded(block_tokens)};
  storage.key_affines = make_zeros(affines, mx::float16);
  storage.value_affines = make_zeros(affines, mx::float16);
  return storage;
}

void CpuKernels::write_kv(KvStorage& storage, const mx::array& k, const mx::array& v, const RaggedBatch& batch) const {
  const HostView keys(k);
  const HostView values(v);
  if (storage.packing.bits != 0) {
    write_rows(context_->team, PackedTokenWriter(context_->loops, storage), keys, values, batch);
  } else if (context_->kv_type == KvType::kF16) {
    write_rows(context_->team, TokenWriter<Half>(context_->loops, storage), keys, values, batch);
  } else {
    write_rows(context_->team, TokenWriter<float>(context_->loops, storage), keys, values, batch);
  }
}

}  // namespace redpoll::kernels::cpu
