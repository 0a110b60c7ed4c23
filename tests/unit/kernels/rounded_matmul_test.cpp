// Products with activations rounded to int16 and int8: against float64 within the rounding's own error, against float64
// of what was rounded, and bit for bit between variants.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <tuple>

#include "kernels/cpu/loops/loops.h"
#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

std::unique_ptr<Kernels> make_rounding(cpu::Variant variant, Activations activations, int num_threads = 2) {
  return std::make_unique<cpu::CpuKernels>(variant, num_threads, activations);
}

struct RoundedMatmulTest : testing::TestWithParam<std::tuple<cpu::Variant, Activations>> {
  static Activations activations() { return std::get<1>(GetParam()); }
  static float largest() { return activations() == Activations::kInt8 ? 127.0F : 32'767.0F; }
  /// Of weights whose activations are rounded.
  static std::vector<int> group_sizes() {
    return activations() == Activations::kInt8 ? std::vector{32, 64, 128} : std::vector{16, 32, 64, 128};
  }
  static std::unique_ptr<Kernels> rounding(int num_threads = 2) {
    return make_rounding(std::get<0>(GetParam()), activations(), num_threads);
  }
  static std::unique_ptr<Kernels> not_rounding() {
    return make_rounding(std::get<0>(GetParam()), Activations::kFloat32);
  }
};
INSTANTIATE_TEST_SUITE_P(EveryVariant, RoundedMatmulTest,
                         testing::Combine(testing::ValuesIn(cpu::available_variants()),
                                          testing::Values(Activations::kInt16, Activations::kInt8)),
                         [](const auto& parameter) {
                           return std::string(cpu::variant_name(std::get<0>(parameter.param))) + '_' +
                                  std::string(activations_name(std::get<1>(parameter.param)));
                         });

/// One group of weights a row, all with this scale and no bias.
std::shared_ptr<TestMatrix> plain_matrix(int out, int in, int bits, float scale = 1) {
  auto m = quantized_matrix(out, in, bits, in, WeightType::kF32);
  const std::vector<float> scales(m->scales.size() / sizeof(float), scale);
  for (int row = 0; row < out; ++row) {
    float old_scale = 0;
    float old_bias = 0;
    std::memcpy(&old_scale, m->scales.data() + static_cast<std::size_t>(row) * sizeof(float), sizeof(float));
    std::memcpy(&old_bias, m->biases.data() + static_cast<std::size_t>(row) * sizeof(float), sizeof(float));
    for (int k = 0; k < in; ++k) {
      double& value =
          m->values[static_cast<std::size_t>(row) * static_cast<std::size_t>(in) + static_cast<std::size_t>(k)];
      value = std::nearbyint((value - double{old_bias}) / double{old_scale}) * double{scale};
    }
  }
  std::memcpy(m->scales.data(), scales.data(), m->scales.size());
  std::ranges::fill(m->biases, std::byte{0});
  return m;
}

/// A row of x as the definition rounds it: each group to multiples of its largest absolute value / `largest`.
struct RoundedRow {
  std::vector<double> values;
  std::vector<double> steps;  // of each value
};

RoundedRow rounded(const float* x, int size, int group_size, float largest) {
  RoundedRow row;
  for (int group = 0; group < size; group += group_size) {
    float peak = 0;
    for (int i = 0; i < group_size; ++i) peak = std::max(peak, std::abs(x[group + i]));
    const float step = peak / largest;
    for (int i = 0; i < group_size; ++i) {
      row.values.push_back(double{step} * double{std::nearbyint(x[group + i] * (largest / peak))});
      row.steps.push_back(double{step});
    }
  }
  return row;
}

RoundedRow rounded(const float* x, const MatrixWeights& weights, Activations activations) {
  if (activations == Activations::kInt8) return rounded(x, weights.in_features, kInt8Group, 127.0F);
  return rounded(x, weights.in_features, weights.group_size, 32'767.0F);
}

/// Two bounds. Against the exact product: half a step per activation, and what x / step in float32 is off by: below
/// 0.005 of a step. Against the product of the rounded activations: float32 sums of a term for each group, within 1e-6
/// of the sum of their magnitudes.
void expect_rounded_product(const Matrix& matrix, const TestMatrix& m, Activations activations, int rows) {
  const auto in = static_cast<std::size_t>(m.view.in_features);
  const auto out = static_cast<std::size_t>(m.view.out_features);
  const std::vector<float> x = random_floats(static_cast<std::size_t>(rows) * in, 11);
  const std::vector<float> actual = floats_of(matrix.multiply(array_of(x, {rows, m.view.in_features})));
  ASSERT_EQ(actual.size(), static_cast<std::size_t>(rows) * out);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const float* row = x.data() + i / out * in;
    const RoundedRow as_rounded = rounded(row, m.view, activations);
    double exact = 0;
    double sum = 0;
    double magnitude = 0;
    double rounding = 0;
    for (std::size_t k = 0; k < in; ++k) {
      const double weight = m.values[i % out * in + k];
      exact += weight * double{row[k]};
      sum += weight * as_rounded.values[k];
      magnitude += m.magnitudes[i % out * in + k] * std::abs(as_rounded.values[k]);
      rounding += std::abs(weight) * as_rounded.steps[k] * 0.505;
    }
    ASSERT_NEAR(actual[i], sum, 1e-6 * magnitude) << "element " << i << ", bits " << m.view.bits;
    ASSERT_NEAR(actual[i], exact, rounding + 1e-6 * magnitude) << "element " << i << ", bits " << m.view.bits;
  }
}

void expect_rounded_products(const Matrix& matrix, const TestMatrix& m, Activations activations) {
  for (const int rows : {1, 2, 4, 9, 27}) {
    ASSERT_NO_FATAL_FAILURE(expect_rounded_product(matrix, m, activations, rows));
  }
}

TEST_P(RoundedMatmulTest, StaysWithinHalfAStepPerActivationOfFloat64) {
  const auto kernels = rounding();
  for (const int bits : {4, 8}) {
    for (const int group_size : group_sizes()) {
      for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
        const auto m = quantized_matrix(77, 384, bits, group_size, type);
        const auto matrix = kernels->make_matrix(m->view);
        ASSERT_NO_FATAL_FAILURE(expect_rounded_products(*matrix, *m, activations()));
      }
    }
  }
}

/// A row whose largest value is `largest`, and others that are whole, near the middle between two whole ones, and
/// there.
std::vector<float> row_near_halves(int row, float largest) {
  constexpr float kFractions[] = {0.49F, -0.49F, 0.5F, -0.5F, 0.0F};
  std::vector<float> x{row % 2 == 0 ? largest : -largest};
  for (int i = 1; i < kInt8Group; ++i) {
    const auto whole = static_cast<float>((i * 37 + row * 11) % 120);
    x.push_back((i % 2 == 0 ? 1.0F : -1.0F) * (whole + kFractions[(i + row) % 5]));
  }
  return x;
}

/// With scales of 1, no biases and steps of 1, products are sums of integers, so a rounding that is not to the nearest
/// one, or to an even one in the middle, shows.
TEST_P(RoundedMatmulTest, RoundsToTheNearestInteger) {
  constexpr int kRows = 30;
  constexpr int kColumns = 40;
  for (const int bits : {4, 8}) {
    const auto m = plain_matrix(kColumns, kInt8Group, bits);
    std::vector<float> x;
    std::vector<float> expected;
    for (int i = 0; i < kRows * kColumns; ++i) {
      const std::vector<float> row = row_near_halves(i / kColumns, largest());
      if (i % kColumns == 0) x.insert(x.end(), row.begin(), row.end());
      const auto* weights = m->values.data() + static_cast<std::ptrdiff_t>(i % kColumns) * kInt8Group;
      expected.push_back(static_cast<float>(
          std::inner_product(row.begin(), row.end(), weights, 0.0, std::plus<>(),
                             [](float value, double weight) { return std::nearbyint(value) * weight; })));
    }
    const auto matrix = rounding()->make_matrix(m->view);
    EXPECT_EQ(floats_of(matrix->multiply(array_of(x, {kRows, kInt8Group}))), expected) << bits << " bits";
  }
}

TEST_P(RoundedMatmulTest, GivesARowTheSameBitsForAnyNumberOfRowsAndThreads) {
  for (const auto& m :
       {quantized_matrix(203, 576, 4, 32, WeightType::kF16), quantized_matrix(203, 576, 8, 64, WeightType::kF32),
        quantized_matrix(96, 1536, 4, 128, WeightType::kBF16),
        quantized_matrix(77, 21 * group_sizes().front(), 8, group_sizes().front(), WeightType::kF16)}) {
    ASSERT_NO_FATAL_FAILURE(expect_same_bits_in_any_company(*m, [](int threads) { return rounding(threads); }));
  }
}

TEST_P(RoundedMatmulTest, GivesTheSameBitsInEveryVariant) {
  for (const int bits : {4, 8}) {
    for (const int group_size : group_sizes()) {
      const auto m = quantized_matrix(77, 384, bits, group_size, WeightType::kF16);
      const mx::array x = mx::multiply(random_array({27, 384}, 6), random_array({27, 1}, 7, 1e3F));
      const auto portable = make_rounding(cpu::Variant::kPortable, activations())->make_matrix(m->view);
      const auto matrix = rounding()->make_matrix(m->view);
      for (const int rows : {1, 9, 27}) {
        const mx::array some = rows_of(x, 0, rows);
        EXPECT_EQ(bits_of(matrix->multiply(some)), bits_of(portable->multiply(some)))
            << bits << " bits in groups of " << group_size << ", " << rows << " rows";
      }
    }
  }
}

/// The largest weights and activations of either sign, in the largest group, overflow no integer sum.
TEST_P(RoundedMatmulTest, SumsTheLargestValuesExactly) {
  constexpr int kInputs = 128;
  for (const int bits : {4, 8}) {
    const auto m = plain_matrix(5, kInputs, bits);
    std::ranges::fill(m->weight, std::byte{0xff});
    const auto matrix = rounding()->make_matrix(m->view);
    for (const float value : {largest(), -largest()}) {
      const float expected = static_cast<float>((1 << bits) - 1) * value * kInputs;
      const mx::array x = mx::full({30, kInputs}, value);
      EXPECT_THAT(floats_of(matrix->multiply(rows_of(x, 0, 3))), testing::Each(expected)) << bits << " bits";
      EXPECT_THAT(floats_of(matrix->multiply(x)), testing::Each(expected)) << bits << " bits";
    }
  }
}

TEST_P(RoundedMatmulTest, GoesToInfinityWhereFloatsDo) {
  const auto m = plain_matrix(5, kInt8Group, 4, 3e38F);
  std::ranges::fill(m->weight, std::byte{0xff});
  const auto matrix = rounding()->make_matrix(m->view);
  EXPECT_THAT(floats_of(matrix->multiply(mx::full({2, kInt8Group}, 1e3F))), testing::Each(INFINITY));
  EXPECT_THAT(floats_of(matrix->multiply(mx::full({2, kInt8Group}, -1e3F))), testing::Each(-INFINITY));
}

TEST_P(RoundedMatmulTest, ShowsAValueThatIsNotFiniteInItsRowAlone) {
  const auto m = quantized_matrix(40, 64, 4, 32, WeightType::kF16);
  const auto matrix = rounding()->make_matrix(m->view);
  constexpr int kRows = 30;
  const std::vector<float> good = random_floats(std::size_t{kRows} * 64, 8);
  const auto expected = floats_of(matrix->multiply(array_of(good, {kRows, 64})));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = good;
    x[64 + 37] = bad;
    const auto product = floats_of(matrix->multiply(array_of(x, {kRows, 64})));
    for (std::size_t i = 0; i < product.size(); ++i) {
      if (i / 40 == 1) {
        EXPECT_TRUE(std::isnan(product[i]));
      } else {
        EXPECT_EQ(product[i], expected[i]);
      }
    }
  }
}

TEST_P(RoundedMatmulTest, TakesGroupsOfZerosAndOfSubnormalsForZero) {
  const auto m = quantized_matrix(8, 64, 8, 32, WeightType::kF16);
  const auto matrix = rounding()->make_matrix(m->view);
  for (const float tiny : {0.0F, 1e-42F, -1e-31F}) {
    EXPECT_THAT(floats_of(matrix->multiply(mx::full({2, 64}, tiny))), testing::Each(0.0F)) << tiny;
  }
}

TEST_P(RoundedMatmulTest, LeavesOtherWeightsToFloat32) {
  std::vector others{quantized_matrix(40, 320, 5, 32, WeightType::kF16), dense_matrix(64, 96, WeightType::kBF16)};
  if (activations() == Activations::kInt8) others.push_back(quantized_matrix(40, 320, 4, 16, WeightType::kF16));
  for (const auto& m : others) {
    const mx::array x = random_array({5, m->view.in_features}, 9);
    EXPECT_EQ(bits_of(rounding()->make_matrix(m->view)->multiply(x)),
              bits_of(not_rounding()->make_matrix(m->view)->multiply(x)));
  }
}

TEST_P(RoundedMatmulTest, SaysSoInTheNameOfTheKernelSet) {
  const std::string ending = '-' + std::string(activations_name(activations()));
  EXPECT_EQ(rounding()->name(), std::string(not_rounding()->name()) + ending);
  EXPECT_THAT(make_kernels({.num_threads = 1, .activations = activations()})->name(), testing::EndsWith(ending));
}

TEST(UsualActivations, AreInt16WhereTheProcessorHasVectorsForThem) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "a GPU rounds none";
  const cpu::Variant variant = *cpu::chosen_variant();
  const std::string name(make_kernels({.num_threads = 1})->name());
  EXPECT_EQ(name.ends_with("-int16"), variant != cpu::Variant::kPortable) << name;
  EXPECT_THAT(make_kernels({.num_threads = 1, .activations = Activations::kFloat32})->name(),
              testing::Not(testing::HasSubstr("int")));
}

}  // namespace
}  // namespace redpoll::kernels
