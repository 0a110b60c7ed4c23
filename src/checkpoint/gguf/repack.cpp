#include "checkpoint/gguf/repack.h"

#include <algorithm>
#include <cstring>

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

// Eight bytes, each below 2^bits, to 8 * bits contiguous bits. Each step joins neighbours: bytes to 16-bit lanes, those
// to 32, those to 64.
std::uint64_t join_eight(const Byte* q, unsigned bits) {
  std::uint64_t x = 0;
  std::memcpy(&x, q, sizeof x);
  x = (x & 0x00FF00FF00FF00FFULL) | (x & 0xFF00FF00FF00FF00ULL) >> (8 - bits);
  x = (x & 0x0000FFFF0000FFFFULL) | (x & 0xFFFF0000FFFF0000ULL) >> (16 - 2 * bits);
  return (x & 0x00000000FFFFFFFFULL) | (x & 0xFFFFFFFF00000000ULL) >> (32 - 4 * bits);
}

void pack(const Byte* q, int count, unsigned bits, Byte* out) {
  if (bits == 8) {
    std::memcpy(out, q, static_cast<std::size_t>(count));
    return;
  }
  for (int i = 0; i < count; i += 8, out += bits) {
    const std::uint64_t joined = join_eight(q + i, bits);
    std::memcpy(out, &joined, bits);  // 8 values of `bits` bits are `bits` bytes
  }
}

struct AffineFormat {
  unsigned bits;
  int group_size;
  void (*unpack)(const Byte* block, Unpacked& out);
};

AffineFormat affine_format(std::uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kQ40: return {4, 32, unpack_q4_0};
    case GgufType::kQ41: return {4, 32, unpack_q4_1};
    case GgufType::kQ50: return {5, 32, unpack_q5_0};
    case GgufType::kQ51: return {5, 32, unpack_q5_1};
    case GgufType::kQ80: return {8, 32, unpack_q8_0};
    case GgufType::kQ4K: return {4, 32, unpack_q4_k};
    case GgufType::kQ5K: return {5, 32, unpack_q5_k};
    case GgufType::kQ6K: return {6, 16, unpack_q6_k};
    default: return {0, 0, nullptr};
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

// Scales and biases as F16 if all are exact there, else as F32.
void store_scales(std::span<const float> scales, std::span<const float> biases, AffineTensors& out) {
  const auto store = [](Tensor& tensor, DType dtype, const OwnedBytes& memory) {
    tensor.dtype = dtype;
    tensor.bytes = memory.bytes;
    tensor.storage = memory.storage;
  };
  const OwnedBytes half_scales = allocate_bytes(scales.size() * 2);
  const OwnedBytes half_biases = allocate_bytes(biases.size() * 2);
  if (narrow_to_half(scales, reinterpret_cast<std::uint16_t*>(half_scales.bytes.data())) &&
      narrow_to_half(biases, reinterpret_cast<std::uint16_t*>(half_biases.bytes.data()))) {
    store(out.scales, DType::kF16, half_scales);
    store(out.biases, DType::kF16, half_biases);
    return;
  }
  const auto copy = [&](Tensor& tensor, std::span<const float> values) {
    const OwnedBytes memory = allocate_bytes(values.size_bytes());
    std::ranges::copy(std::as_bytes(values), memory.bytes.begin());
    store(tensor, DType::kF32, memory);
  };
  copy(out.scales, scales);
  copy(out.biases, biases);
}

const Byte* row_bytes(const GgufTensor& tensor, const RowOrder& order, std::int64_t row) {
  const std::size_t stride = tensor.bytes.size() / static_cast<std::size_t>(order.rows);
  return reinterpret_cast<const Byte*>(tensor.bytes.data()) + static_cast<std::size_t>(order.source(row)) * stride;
}

}  // namespace

AffineShape affine_shape(std::uint32_t gguf_type) {
  const AffineFormat format = affine_format(gguf_type);
  return {static_cast<int>(format.bits), format.group_size};
}

AffineTensors repack_affine(const GgufTensor& tensor, const RowOrder& order) {
  const AffineFormat format = affine_format(tensor.type);
  const GgufBlock block = gguf_block(tensor.type).value_or(GgufBlock{});
  CHECK(format.bits > 0 && tensor.shape.size() == 2 && !tensor.bytes.empty(), "not a quantized matrix");
  const std::int64_t columns = tensor.shape[1];
  const std::int64_t groups = columns / format.group_size;
  const int groups_per_block = block.elements / format.group_size;

  const auto weight_bytes = static_cast<std::size_t>(order.rows * columns / 8) * format.bits;
  const OwnedBytes weight = allocate_bytes(weight_bytes);
  auto* packed = reinterpret_cast<Byte*>(weight.bytes.data());
  std::vector<float> scales(static_cast<std::size_t>(order.rows * groups));
  std::vector<float> biases(scales.size());
  float* next_scale = scales.data();
  float* next_bias = biases.data();
  Unpacked unpacked;
  for (std::int64_t row = 0; row < order.rows; ++row) {
    const Byte* source = row_bytes(tensor, order, row);
    for (std::int64_t column = 0; column < columns; column += block.elements, source += block.bytes) {
      format.unpack(source, unpacked);
      pack(unpacked.q, block.elements, format.bits, packed);
      packed += static_cast<std::size_t>(block.elements) / 8 * format.bits;
      next_scale = std::copy_n(unpacked.scales, groups_per_block, next_scale);
      next_bias = std::copy_n(unpacked.biases, groups_per_block, next_bias);
    }
  }
  AffineTensors out;
  out.weight = {DType::kU32, {order.rows, columns * format.bits / 32}, weight.bytes, weight.storage};
  out.scales.shape = out.biases.shape = {order.rows, groups};
  store_scales(scales, biases, out);
  return out;
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
