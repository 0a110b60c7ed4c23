#include "nn/block_floats.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "checkpoint/tensor.h"

namespace redpoll::nn {
namespace {

/// E2M1: twice the value of a code without its sign.
constexpr std::array<int, 8> kTwiceFp4 = {0, 1, 2, 3, 4, 6, 8, 12};
constexpr int kMostTwiceFp4 = 12;

int twice_fp4(unsigned code) {
  const int magnitude = kTwiceFp4[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

/// E4M3: no infinities, and one NaN of each sign.
float fp8(unsigned code) {
  const unsigned exponent = (code >> 3U) & 15U;
  const unsigned mantissa = code & 7U;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
  if ((code & 0x7fU) == 0x7fU) value = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80U) != 0 ? -value : value;
}

/// E8M0: a power of two.
float power_of_two(unsigned code) {
  return code == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, static_cast<int>(code) - 127);
}

/// Exact for all that is stored here: at most eight bits of precision, from 2^-133 on.
void store_bf16(float value, std::byte* to) {
  const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
  std::memcpy(to, &upper, sizeof(upper));
}

unsigned code_at(std::span<const std::byte> packed, std::size_t index, int bits) {
  if (bits == 8) return std::to_integer<unsigned>(packed[index]);
  return (std::to_integer<unsigned>(packed[index / 2]) >> (index % 2 * 4)) & 15U;
}

/// w = scale * v = (scale / 2) * (2 v + 12) - 6 * scale, where 2 v is a whole number.
kernels::MatrixWeights as_integers(const BlockFloats& floats) {
  const std::size_t size = static_cast<std::size_t>(floats.rows) * static_cast<std::size_t>(floats.columns);
  const std::size_t num_scales = floats.scales.size();
  const checkpoint::OwnedBytes memory = checkpoint::allocate_bytes(size + 4 * num_scales);
  const std::span<std::byte> weight = memory.bytes.first(size);
  const std::span<std::byte> scales = memory.bytes.subspan(size, 2 * num_scales);
  const std::span<std::byte> biases = memory.bytes.subspan(size + 2 * num_scales);
  for (std::size_t i = 0; i < size; ++i) {
    weight[i] = static_cast<std::byte>(twice_fp4(code_at(floats.weight, i, 4)) + kMostTwiceFp4);
  }
  for (std::size_t i = 0; i < num_scales; ++i) {
    const float scale = power_of_two(std::to_integer<unsigned>(floats.scales[i])) / 2;
    store_bf16(scale, scales.data() + 2 * i);
    store_bf16(-kMostTwiceFp4 * scale, biases.data() + 2 * i);
  }
  return {.out_features = floats.rows,
          .in_features = floats.columns,
          .type = kernels::WeightType::kBF16,
          .bits = 8,
          .group_size = block_size(floats.mode),
          .weight = weight,
          .scales = scales,
          .biases = biases,
          .storage = memory.storage};
}

kernels::MatrixWeights as_bfloat16(const BlockFloats& floats) {
  const std::size_t size = static_cast<std::size_t>(floats.rows) * static_cast<std::size_t>(floats.columns);
  const checkpoint::OwnedBytes memory = checkpoint::allocate_bytes(2 * size);
  const int bits = block_bits(floats.mode);
  const auto block = static_cast<std::size_t>(block_size(floats.mode));
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned code = code_at(floats.weight, i, bits);
    const auto scale_code = std::to_integer<unsigned>(floats.scales[i / block]);
    const float value = bits == 8 ? fp8(code) : static_cast<float>(twice_fp4(code)) / 2;
    store_bf16(value * (bits == 8 ? power_of_two(scale_code) : fp8(scale_code)), memory.bytes.data() + 2 * i);
  }
  return {.out_features = floats.rows,
          .in_features = floats.columns,
          .type = kernels::WeightType::kBF16,
          .weight = memory.bytes,
          .scales = {},
          .biases = {},
          .storage = memory.storage};
}

}  // namespace

int block_size(std::string_view mode) {
  if (mode == "mxfp4" || mode == "mxfp8") return 32;
  return mode == "nvfp4" ? 16 : 0;
}

int block_bits(std::string_view mode) {
  if (mode == "mxfp4" || mode == "nvfp4") return 4;
  return mode == "mxfp8" ? 8 : 0;
}

kernels::WeightFormat weight_format(std::string_view mode) {
  if (mode == "mxfp4") return kernels::WeightFormat::kMxfp4;
  if (mode == "mxfp8") return kernels::WeightFormat::kMxfp8;
  return mode == "nvfp4" ? kernels::WeightFormat::kNvfp4 : kernels::WeightFormat::kAffine;
}

kernels::MatrixWeights widened(const BlockFloats& floats) {
  return floats.mode == "mxfp4" ? as_integers(floats) : as_bfloat16(floats);
}

}  // namespace redpoll::nn
