// Random numbers without state: a draw is a hash of what it is for. So it does not depend on what else was drawn
// before, in which batch, or whether a sequence was computed twice.
#pragma once

#include <cstdint>

namespace redpoll::engine::sampling {

/// What a draw is for. `position` is the index, in its sequence, of the token to be chosen.
struct DrawKey {
  std::uint64_t seed = 0;
  int choice = 0;
  int position = 0;
};

enum class DrawPurpose : std::uint64_t { kToken = 1, kXtc = 2 };

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on every bit of x.
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// In [0, 1), a multiple of 2^-53.
[[nodiscard]] constexpr double uniform_draw(const DrawKey& key, DrawPurpose purpose) {
  std::uint64_t hash = mix_bits(key.seed);
  hash = mix_bits(hash ^ static_cast<std::uint64_t>(key.choice));
  hash = mix_bits(hash ^ static_cast<std::uint64_t>(key.position));
  hash = mix_bits(hash ^ static_cast<std::uint64_t>(purpose));
  return static_cast<double>(hash >> 11U) * 0x1p-53;
}

}  // namespace redpoll::engine::sampling
