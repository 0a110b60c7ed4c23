// IEEE half precision as bit patterns, without asking the compiler for a half type. Internal to checkpoint/.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

namespace redpoll::checkpoint {

[[nodiscard]] inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide_exponent << 23U | mantissa << 13U);
}

/// The half that equals `value` exactly, if there is one. NaNs match if their payload fits.
[[nodiscard]] inline std::optional<std::uint16_t> exact_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::int32_t exponent = static_cast<std::int32_t>(bits >> 23U & 0xFFU) - 127;
  const std::uint32_t mantissa = bits & 0x7FFFFFU;
  std::uint32_t magnitude = 0;
  if (exponent == -127) {
    if (mantissa != 0) return std::nullopt;  // below the smallest half
  } else if (exponent >= -14 && (exponent <= 15 || exponent == 128)) {
    if ((mantissa & 0x1FFFU) != 0) return std::nullopt;
    const std::uint32_t half_exponent = exponent == 128 ? 0x1FU : static_cast<std::uint32_t>(exponent + 15);
    magnitude = half_exponent << 10U | mantissa >> 13U;
  } else if (exponent >= -24 && exponent < -14) {
    const std::uint32_t full = mantissa | 0x800000U;
    const auto shift = static_cast<std::uint32_t>(-1 - exponent);  // units of 2^-24: 23 bits at exponent -24
    if ((full & ((1U << shift) - 1)) != 0) return std::nullopt;
    magnitude = full >> shift;
  } else {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(sign | magnitude);
}

}  // namespace redpoll::checkpoint
