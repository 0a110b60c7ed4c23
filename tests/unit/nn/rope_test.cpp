// Frequencies against the formulas in double, and the refusals.
#include "nn/rope.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace redpoll::nn {
namespace {

checkpoint::Config config_with(std::string_view rope_scaling) {
  auto config = checkpoint::parse_config(
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
          "intermediate_size": 64, "vocab_size": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
          "rope_scaling": )" +
      std::string(rope_scaling) + "}");
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

std::vector<float> frequencies(std::string_view rope_scaling) {
  const auto rope = make_rope(config_with(rope_scaling));
  EXPECT_TRUE(rope) << rope.error().message;
  EXPECT_EQ(rope->dims, 64);
  return rope->inverse_frequencies;
}

// exp(-x) of a float32 x up to 13 is off by x * 2^-24, relatively.
constexpr double kBound = 2e-6;

double plain(int i) { return std::pow(500000.0, -2.0 * i / 64); }

TEST(RopeTest, DefaultFollowsTheta) {
  const auto got = frequencies("null");
  ASSERT_EQ(got.size(), 32U);
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(got[i] / plain(i), 1, kBound) << i;
}

TEST(RopeTest, LinearDividesByTheFactor) {
  const auto got = frequencies(R"({"rope_type": "linear", "factor": 4.0})");
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(got[i] / (plain(i) / 4), 1, kBound) << i;
}

TEST(RopeTest, Llama3KeepsHighStretchesLowAndBlendsBetween) {
  const auto got = frequencies(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})");
  int kept = 0, stretched = 0, blended = 0;
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2 * M_PI / plain(i);
    double expected = plain(i);
    if (wavelength > 8192) {
      expected /= 8;
      ++stretched;
    } else if (wavelength > 2048) {
      const double smooth = (8192 / wavelength - 1) / 3;
      expected *= (1 - smooth) / 8 + smooth;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(got[i] / expected, 1, 1e-5) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

// From the paper: r(i) rotations over the original context; kept from beta_fast on, stretched up to beta_slow.
TEST(RopeTest, YarnKeepsWhatRotatesOftenAndStretchesTheRest) {
  auto config = config_with(R"({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096,
                                "beta_fast": 32, "beta_slow": 1, "truncate": false})");
  config.rope_theta = 10000;
  const auto rope = make_rope(config);
  ASSERT_TRUE(rope) << rope.error().message;
  EXPECT_NEAR(rope->scale, 0.1 * std::log(8.0) + 1, 1e-6);
  const double dims = rope->dims;
  const auto dimension_of = [&](double rotations) {
    return dims * std::log(4096 / (rotations * 2 * std::numbers::pi)) / (2 * std::log(10000.0));
  };
  for (std::size_t i = 0; i < rope->inverse_frequencies.size(); ++i) {
    const double plain = std::pow(10000.0, -2.0 * static_cast<double>(i) / dims);
    const double at = static_cast<double>(i);
    const double ramp = std::clamp((at - dimension_of(32)) / (dimension_of(1) - dimension_of(32)), 0.0, 1.0);
    EXPECT_NEAR(rope->inverse_frequencies[i] / (plain * (1 - ramp) + plain / 8 * ramp), 1, 2e-5) << i;
  }
}

TEST(RopeTest, YarnSaysWhatItLacks) {
  EXPECT_EQ(make_rope(config_with(R"({"rope_type": "yarn"})")).error().param, "rope_scaling.factor");
  EXPECT_EQ(
      make_rope(config_with(R"({"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 4})")).error().param,
      "rope_scaling.beta_slow");
}

TEST(RopeTest, NamesATypeItDoesNotKnow) {
  const auto rope = make_rope(config_with(R"({"rope_type": "spiral", "factor": 2.0})"));
  ASSERT_FALSE(rope);
  EXPECT_EQ(rope.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(rope.error().message, testing::HasSubstr("spiral"));
}

TEST(RopeTest, RefusesAnOddHeadDim) {
  auto config = config_with("null");
  config.head_dim = 63;
  const auto rope = make_rope(config);
  ASSERT_FALSE(rope);
  EXPECT_THAT(rope.error().message, testing::HasSubstr("63 of head_dim 63 cannot be rotated in pairs"));
}

TEST(RopeTest, RotatesAPartOfEachHeadOnlyForFamiliesThatDo) {
  auto config = config_with("null");
  config.head_dim = 64;
  config.partial_rotary_factor = 0.5;
  const auto refused = make_rope(config);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "partial_rotary_factor");
  const auto rope = make_rope(config, PartialRotation::kAllowed);
  ASSERT_TRUE(rope);
  EXPECT_EQ(rope->head_dim, 64);
  EXPECT_EQ(rope->dims, 32);
  config.head_dim = 32;
  config.partial_rotary_factor = 1;
  EXPECT_EQ(make_rope(config)->inverse_frequencies, rope->inverse_frequencies);
  config.partial_rotary_factor = 0.01;
  EXPECT_EQ(make_rope(config, PartialRotation::kAllowed).error().param, "head_dim");
}

TEST(RopeTest, AnotherBaseIsAnotherTheta) {
  auto config = config_with(R"({"rope_type": "linear", "factor": 8.0})");
  const kernels::RopeSpec local = make_rope_of_base(config, 1234);
  auto plain = config_with("null");
  plain.rope_theta = 1234;
  EXPECT_EQ(local.inverse_frequencies, make_rope(plain)->inverse_frequencies);
}

}  // namespace
}  // namespace redpoll::nn
