#include "checkpoint/gguf/repack.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/gguf/half.h"

namespace redpoll::checkpoint {
namespace {

using Byte = std::uint8_t;

// One block taken apart: up to 256 integers and their groups' scales and biases.
struct Unpacked {
  Byte q[256];
  float scales[16];
  float biases[16];
};

float load_half(const Byte* at) {
  std::uint16_t half = 0;
  std::memcpy(&half, at, sizeof half);
  return half_to_float(half);
}

// `count` bytes, a multiple of 8, hold as many elements in their low halves and the following ones in their high
// halves. Eight bytes at a time: this is most of the work of loading a quantized model.
void unpack_halves(const Byte* bytes, int count, Byte* q) {
  constexpr std::uint64_t kLowHalves = 0x0F0F0F0F0F0F0F0FULL;
  for (int i = 0; i < count; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    const std::uint64_t low = word & kLowHalves;
    const std::uint64_t high = word >> 4U & kLowHalves;
    std::memcpy(q + i, &low, sizeof low);
    std::memcpy(q + count + i, &high, sizeof high);
  }
}

// Bit i of a 32-bit word is the fifth bit of element i.
void add_fifth_bits(const Byte* word, Byte* q) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, word, sizeof bits);
  for (unsigned i = 0; i < 32; ++i) q[i] |= static_cast<Byte>((bits >> i & 1U) << 4U);
}

void unpack_q4_0(const Byte* block, Unpacked& out) {
  out.scales[0] = load_half(block);
  out.biases[0] = -8 * out.scales[0];
  unpack_halves(block + 2, 16, out.q);
}

void unpack_q4_1(const Byte* block, Unpacked& out) {
  out.scales[0] = load_half(block);
  out.biases[0] = load_half(block + 2);
  unpack_halves(block + 4, 16, out.q);
}

void unpack_q5_0(const Byte* block, Unpacked& out) {
  out.scales[0] = load_half(block);
  out.biases[0] = -16 * out.scales[0];
  unpack_halves(block + 6, 16, out.q);
  add_fifth_bits(block + 2, out.q);
}

void unpack_q5_1(const Byte* block, Unpacked& out) {
  out.scales[0] = load_half(block);
  out.biases[0] = load_half(block + 2);
  unpack_halves(block + 8, 16, out.q);
  add_fifth_bits(block + 4, out.q);
}

void unpack_q8_0(const Byte* block, Unpacked& out) {
  out.scales[0] = load_half(block);
  out.biases[0] = -128 * out.scales[0];
  for (int i = 0; i < 32; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, block + 2 + i, sizeof word);
    word ^= 0x8080808080808080ULL;  // signed to offset
    std::memcpy(out.q + i, &word, sizeof word);
  }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each whole in bytes 0-3 and 4-7, of the last
// four the low halves in bytes 8-11 and the high pairs atop of the first eight bytes.
void unpack_k_scales(const Byte* block, Unpacked& out) {
  const float d = load_half(block);
  const float dmin = load_half(block + 2);
  const Byte* packed = block + 4;
  for (int group = 0; group < 8; ++group) {
    unsigned scale = 0;
    unsigned minimum = 0;
    if (group < 4) {
      scale = packed[group] & 63U;
      minimum = packed[group + 4] & 63U;
    } else {
      scale = (packed[group + 4] & 0xFU) | (packed[group - 4] >> 6U) << 4U;
      minimum = static_cast<unsigned>(packed[group + 4] >> 4U) | (packed[group] >> 6U) << 4U;
    }
    out.scales[group] = d * static_cast<float>(scale);
    out.biases[group] = -(dmin * static_cast<float>(minimum));
  }
}

// 32 bytes hold one group in their low and the next in their high halves.
void unpack_k_nibbles(const Byte* nibbles, Byte* q) {
  for (std::size_t pair = 0; pair < 4; ++pair) unpack_halves(nibbles + pair * 32, 32, q + pair * 64);
}

void unpack_q4_k(const Byte* block, Unpacked& out) {
  unpack_k_scales(block, out);
  unpack_k_nibbles(block + 16, out.q);
}

void unpack_q5_k(const Byte* block, Unpacked& out) {
  unpack_k_scales(block, out);
  unpack_k_nibbles(block + 48, out.q);
  const Byte* high = block + 16;  // bit g of byte i is the fifth bit of element i of group g
  for (unsigned group = 0; group < 8; ++group) {
    for (unsigned i = 0; i < 32; ++i) {
      out.q[group * 32 + i] |= static_cast<Byte>((high[i] >> group & 1U) << 4U);
    }
  }
}

// 16 signed 8-bit scales, each of 16 weights. A half of the block keeps four rows of 32 elements: low bits in 64 bytes,
// high pairs in 32.
void unpack_q6_k(const Byte* block, Unpacked& out) {
  const float d = load_half(block + 208);
  for (std::size_t group = 0; group < 16; ++group) {
    out.scales[group] = d * static_cast<float>(static_cast<std::int8_t>(block[192 + group]));
    out.biases[group] = -32 * out.scales[group];
  }
  for (std::size_t half = 0; half < 2; ++half) {
    Byte* q = out.q + half * 128;
    unpack_halves(block + half * 64, 64, q);
    const Byte* high = block + 128 + half * 32;
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t i = 0; i < 32; ++i) q[row * 32 + i] |= static_cast<Byte>((high[i] >> (2 * row) & 3U) << 4U);
    }
  }
}

// A power of two and 32 floats of a sign, two bits of exponent and one of mantissa, as twice their values and 12 more.
void unpack_mxfp4(const Byte* block, Unpacked& out) {
  constexpr Byte kShifted[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  const int exponent = block[0];
  const float scale = exponent == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, exponent - 127);
  out.scales[0] = scale / 2;
  out.biases[0] = -6 * scale;
  unpack_halves(block + 1, 16, out.q);
  for (int i = 0; i < 32; ++i) out.q[i] = kShifted[out.q[i]];
}

// Eight bytes, each below 2^Bits, to 8 * Bits contiguous bits. Each step joins neighbours: bytes to 16-bit lanes, those
// to 32, those to 64.
template <unsigned Bits>
std::uint64_t join_eight(const Byte* q) {
  std::uint64_t x = 0;
  std::memcpy(&x, q, sizeof x);
  x = (x & 0x00FF00FF00FF00FFULL) | (x & 0xFF00FF00FF00FF00ULL) >> (8 - Bits);
  x = (x & 0x0000FFFF0000FFFFULL) | (x & 0xFFFF0000FFFF0000ULL) >> (16 - 2 * Bits);
  return (x & 0x00000000FFFFFFFFULL) | (x & 0xFFFFFFFF00000000ULL) >> (32 - 4 * Bits);
}

template <unsigned Bits>
void pack(const Byte* q, int count, Byte* out) {
  for (int i = 0; i < count; i += 8, out += Bits) {
    const std::uint64_t joined = join_eight<Bits>(q + i);
    std::memcpy(out, &joined, Bits);  // 8 values of Bits bits are Bits bytes
  }
}

template <>
void pack<8>(const Byte* q, int count, Byte* out) {
  std::memcpy(out, q, static_cast<std::size_t>(count));
}

// A matrix on its way from blocks to MLX's layout.
struct Rows {
  const GgufTensor& tensor;
  const RowOrder& order;
  Byte* weight;   // (rows, columns * bits / 8)
  float* scales;  // (rows, groups)
  float* biases;
};

const Byte* row_bytes(const GgufTensor& tensor, const RowOrder& order, std::int64_t row) {
  const std::size_t stride = tensor.bytes.size() / static_cast<std::size_t>(order.rows);
  return reinterpret_cast<const Byte*>(tensor.bytes.data()) + static_cast<std::size_t>(order.source(row)) * stride;
}

using Unpack = void (*)(const Byte* block, Unpacked& out);

// Rows [begin, end). All that belongs to the format is a constant, so that the loops over a block are written out.
template <unsigned Bits, int GroupSize, int BlockElements, int BlockBytes, Unpack unpack>
void repack_rows(const Rows& rows, std::int64_t begin, std::int64_t end) {
  constexpr int kGroups = BlockElements / GroupSize;
  constexpr int kPackedBytes = BlockElements / 8 * static_cast<int>(Bits);
  const std::int64_t blocks = rows.tensor.shape.back() / BlockElements;
  Byte* packed = rows.weight + begin * blocks * kPackedBytes;
  float* scales = rows.scales + begin * blocks * kGroups;
  float* biases = rows.biases + begin * blocks * kGroups;
  Unpacked unpacked;
  for (std::int64_t row = begin; row < end; ++row) {
    const Byte* source = row_bytes(rows.tensor, rows.order, row);
    for (std::int64_t block = 0; block < blocks; ++block, source += BlockBytes, packed += kPackedBytes) {
      unpack(source, unpacked);
      pack<Bits>(unpacked.q, BlockElements, packed);
      scales = std::copy_n(unpacked.scales, kGroups, scales);
      biases = std::copy_n(unpacked.biases, kGroups, biases);
    }
  }
}

struct AffineFormat {
  AffineShape shape;
  GgufBlock block;
  void (*repack_rows)(const Rows& rows, std::int64_t begin, std::int64_t end) = nullptr;
};

template <unsigned Bits, int GroupSize, int BlockElements, int BlockBytes, Unpack unpack>
constexpr AffineFormat kFormat{{static_cast<int>(Bits), GroupSize},
                               {BlockElements, BlockBytes},
                               repack_rows<Bits, GroupSize, BlockElements, BlockBytes, unpack>};

AffineFormat affine_format(std::uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kQ40: return kFormat<4, 32, 32, 18, unpack_q4_0>;
    case GgufType::kQ41: return kFormat<4, 32, 32, 20, unpack_q4_1>;
    case GgufType::kQ50: return kFormat<5, 32, 32, 22, unpack_q5_0>;
    case GgufType::kQ51: return kFormat<5, 32, 32, 24, unpack_q5_1>;
    case GgufType::kQ80: return kFormat<8, 32, 32, 34, unpack_q8_0>;
    case GgufType::kQ4K: return kFormat<4, 32, 256, 144, unpack_q4_k>;
    case GgufType::kQ5K: return kFormat<5, 32, 256, 176, unpack_q5_k>;
    case GgufType::kQ6K: return kFormat<6, 16, 256, 210, unpack_q6_k>;
    case GgufType::kMxfp4: return kFormat<8, 32, 32, 17, unpack_mxfp4>;
    default: return {};
  }
}

bool narrow_to_half(std::span<const float> values, std::uint16_t* out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto half = exact_half(values[i]);
    if (!half) return false;
    out[i] = *half;
  }
  return true;
}

// Scales or biases while it is not known yet whether all are exact as halves.
struct Numbers {
  explicit Numbers(std::size_t count) : floats(allocate_bytes(count * 4)), halves(allocate_bytes(count * 2)) {}

  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(floats.bytes.data()); }
  // False if some of [begin, + count) are not.
  [[nodiscard]] bool narrow(std::size_t begin, std::size_t count) const {
    return narrow_to_half({data() + begin, count}, reinterpret_cast<std::uint16_t*>(halves.bytes.data()) + begin);
  }
  [[nodiscard]] Tensor tensor(bool as_halves, const std::vector<std::int64_t>& shape) const {
    const OwnedBytes& memory = as_halves ? halves : floats;
    return {as_halves ? DType::kF16 : DType::kF32, shape, memory.bytes, memory.storage};
  }

  OwnedBytes floats;
  OwnedBytes halves;
};

}  // namespace

AffineShape affine_shape(std::uint32_t gguf_type) { return affine_format(gguf_type).shape; }

AffineTensors repack_affine(const GgufTensor& tensor, const RowOrder& order, const RunAll& run_all) {
  constexpr std::size_t kPartBytes = std::size_t{256} << 10U;  // far more work than handing it out
  const auto [shape, block, repack_rows] = affine_format(tensor.type);
  CHECK(repack_rows != nullptr && tensor.shape.size() >= 2 && !tensor.bytes.empty(), "not a quantized matrix");
  CHECK(block == gguf_block(tensor.type), "both tables of block formats say the same");
  const std::int64_t columns = tensor.shape.back();
  const std::int64_t groups = columns / shape.group_size;
  const OwnedBytes weight = allocate_bytes(static_cast<std::size_t>(order.rows * columns / 8 * shape.bits));
  const Numbers scales(static_cast<std::size_t>(order.rows * groups));
  const Numbers biases(static_cast<std::size_t>(order.rows * groups));
  const Rows rows{tensor, order, reinterpret_cast<Byte*>(weight.bytes.data()), scales.data(), biases.data()};

  const auto parts =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(tensor.bytes.size() / kPartBytes), 1, order.rows);
  std::atomic<bool> are_halves = true;
  run_all(static_cast<int>(parts), [&](int part) {
    const std::int64_t begin = order.rows * part / parts;
    const std::int64_t end = order.rows * (part + 1) / parts;
    repack_rows(rows, begin, end);
    const auto first = static_cast<std::size_t>(begin * groups);
    const auto count = static_cast<std::size_t>((end - begin) * groups);
    if (!scales.narrow(first, count) || !biases.narrow(first, count)) are_halves = false;
  });
  const auto with_last = [&](std::int64_t last) {
    std::vector<std::int64_t> sizes = tensor.shape;
    sizes.back() = last;
    return sizes;
  };
  return {.weight = {DType::kU32, with_last(columns * shape.bits / 32), weight.bytes, weight.storage},
          .scales = scales.tensor(are_halves, with_last(groups)),
          .biases = biases.tensor(are_halves, with_last(groups))};
}

Tensor repack_dense(const GgufTensor& tensor, const RowOrder& order, const std::shared_ptr<const void>& storage) {
  const auto type = static_cast<GgufType>(tensor.type);
  const DType dtype = type == GgufType::kF16 ? DType::kF16 : type == GgufType::kBF16 ? DType::kBF16 : DType::kF32;
  if (order.heads == 0) return make_tensor(dtype, tensor.shape, tensor.bytes, storage);
  const OwnedBytes memory = allocate_bytes(tensor.bytes.size());
  const std::size_t stride = tensor.bytes.size() / static_cast<std::size_t>(order.rows);
  auto* out = reinterpret_cast<Byte*>(memory.bytes.data());
  for (std::int64_t row = 0; row < order.rows; ++row, out += stride) {
    std::memcpy(out, row_bytes(tensor, order, row), stride);
  }
  return {dtype, tensor.shape, memory.bytes, memory.storage};
}

}  // namespace redpoll::checkpoint
