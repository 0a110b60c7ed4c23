#include "nn/block_floats.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/reference.h"

namespace redpoll::nn {
namespace {

namespace mx = mlx::core;

class BlockFloatsTest : public testing::TestWithParam<std::string> {};

mx::array bytes_array(const std::vector<std::uint8_t>& bytes, int rows) {
  return mx::array(bytes.data(), {rows, static_cast<int>(bytes.size()) / rows}, mx::uint8);
}

/// Every code beside many scales.
TEST_P(BlockFloatsTest, EveryValueIsWhatMlxMakesOfIt) {
  constexpr int kRows = 48;
  constexpr int kColumns = 64;
  const std::string mode = GetParam();
  std::mt19937 random(1);
  std::vector<std::uint8_t> weight(kRows * kColumns * block_bits(mode) / 8);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] = static_cast<std::uint8_t>(i % 256);
    if (mode == "mxfp8" && (weight[i] & 0x7fU) == 0x7fU) weight[i] = 0;  // NaN, which equals nothing
  }
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(kRows * kColumns / block_size(mode)));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<std::uint8_t>(mode == "nvfp4" ? i % 127 : 20 + i % 200);  // 20: 2^-107
  }
  const kernels::MatrixWeights widened_weights = widened({.mode = mode,
                                                          .rows = kRows,
                                                          .columns = kColumns,
                                                          .weight = std::as_bytes(std::span(weight)),
                                                          .scales = std::as_bytes(std::span(scales))});
  std::vector<std::int32_t> rows(kRows);
  for (int i = 0; i < kRows; ++i) rows[static_cast<std::size_t>(i)] = i;
  mx::array got =
      kernels::ReferenceKernels().make_matrix(widened_weights)->gather_rows(mx::array(rows.data(), {kRows}, mx::int32));
  mx::array expected =
      mx::dequantize(mx::view(bytes_array(weight, kRows), mx::uint32), bytes_array(scales, kRows), std::nullopt,
                     block_size(mode), block_bits(mode), mode, std::nullopt, mx::float32);
  got = mx::contiguous(mx::astype(got, mx::float32));
  mx::eval(got, expected);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got.data<float>()[i], expected.data<float>()[i]) << mode << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BlockFloatsTest, testing::Values("mxfp4", "mxfp8", "nvfp4"),
                         [](const auto& info) { return info.param; });

TEST(BlockFloatsTest, OtherModesHaveNoBlocks) {
  EXPECT_EQ(block_size("affine"), 0);
  EXPECT_EQ(block_bits("affine"), 0);
}

}  // namespace
}  // namespace redpoll::nn
