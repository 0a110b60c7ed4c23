// Rounding to half precision: against MLX's own conversion on every half and on what lies between two, and the same
// bits in every variant.
#include <bit>
#include <cmath>

#include "kernels/cpu/loops/loops.h"
#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

std::vector<cpu::Half> halves_of(cpu::Variant variant, const std::vector<float>& x) {
  std::vector<cpu::Half> halves(x.size());
  cpu::loops_of(variant).to_halves(x.data(), static_cast<std::int64_t>(x.size()), halves.data());
  return halves;
}

std::vector<float> floats_of_halves(const std::vector<cpu::Half>& halves) {
  const auto* data = reinterpret_cast<const mx::float16_t*>(halves.data());
  return floats_of(mx::array(data, {static_cast<int>(halves.size())}, mx::float16));
}

/// Every finite half of both signs, the middle between it and the next one, and the floats on both sides of that.
std::vector<float> finite_halves_and_middles() {
  constexpr cpu::Half kInfinity = 0x7c00;
  std::vector<cpu::Half> halves(kInfinity);
  std::iota(halves.begin(), halves.end(), cpu::Half{0});
  const std::vector<float> exact = floats_of_halves(halves);
  std::vector<float> values;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    values.push_back(exact[i]);
    if (i + 1 == exact.size()) break;
    const float middle = (exact[i] + exact[i + 1]) / 2;
    values.insert(values.end(), {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 1e9F)});
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

struct HalfTest : CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(HalfTest);

TEST_P(HalfTest, RoundsToTheNearestWithTiesToEven) {
  const std::vector<float> values = finite_halves_and_middles();
  mx::array expected = mx::astype(array_of(values, {static_cast<int>(values.size())}), mx::float16);
  EXPECT_EQ(bits_of(floats_of_halves(halves_of(GetParam(), values))), bits_of(expected));
}

TEST_P(HalfTest, SaturatesBeyondTheLargest) {
  for (const float value : {65505.0F, 65520.0F, 1e5F, 3e38F, INFINITY}) {
    EXPECT_EQ(halves_of(GetParam(), {value, -value}), (std::vector<cpu::Half>{0x7bff, 0xfbff})) << value;
  }
}

TEST_P(HalfTest, KeepsNan) {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xff812345U, 0x7fffffffU}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const std::vector<cpu::Half> halves = halves_of(GetParam(), values);
  EXPECT_EQ(halves, halves_of(cpu::Variant::kPortable, values));
  for (const float value : floats_of_halves(halves)) EXPECT_TRUE(std::isnan(value));
}

TEST_P(HalfTest, ConvertsAnyNumberOfElementsAndWritesNoMore) {
  for (std::size_t size = 0; size <= 40; ++size) {
    const std::vector<float> values(size, 1.5F);
    std::vector<cpu::Half> halves(48, 7);
    cpu::loops_of(GetParam()).to_halves(values.data(), static_cast<std::int64_t>(size), halves.data());
    std::vector<cpu::Half> expected(48, 7);
    std::fill_n(expected.begin(), size, cpu::Half{0x3e00});
    EXPECT_EQ(halves, expected) << size;
  }
}

}  // namespace
}  // namespace redpoll::kernels
