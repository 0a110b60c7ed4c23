// Products with activations rounded to int8: against float64 within the rounding's own error, against float64 of what
// was rounded, and bit for bit between variants.
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/cpu/loops/loops.h"
#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

std::unique_ptr<Kernels> int8_kernels(cpu::Variant variant, int num_threads = 2) {
  return std::make_unique<cpu::CpuKernels>(variant, num_threads, Activations::kInt8);
}

struct Int8MatmulTest : CpuVariantTest {
  static std::unique_ptr<Kernels> int8(int num_threads = 2) { return int8_kernels(GetParam(), num_threads); }
};
INSTANTIATE_FOR_EVERY_VARIANT(Int8MatmulTest);

/// A row of x as the definition rounds it: each group to multiples of its largest absolute value / 127.
struct RoundedRow {
  std::vector<double> values;
  std::vector<double> steps;  // of each value
};

RoundedRow rounded(const float* x, int size) {
  RoundedRow row;
  for (int group = 0; group < size; group += kInt8Group) {
    float peak = 0;
    for (int i = 0; i < kInt8Group; ++i) peak = std::max(peak, std::abs(x[group + i]));
    const float step = peak / 127.0F;
    for (int i = 0; i < kInt8Group; ++i) {
      row.values.push_back(double{step} * double{std::nearbyint(x[group + i] * (127.0F / peak))});
      row.steps.push_back(double{step});
    }
  }
  return row;
}

/// Two bounds. Against the exact product: half a step per activation (and 1e-4 of one, because x / step is rounded).
/// Against the product of the rounded activations: float32 sums of a term for each group, within 1e-6 of the sum of
/// absolute values.
void expect_int8_product(const Matrix& matrix, const TestMatrix& m, int rows) {
  const auto in = static_cast<std::size_t>(m.view.in_features);
  const auto out = static_cast<std::size_t>(m.view.out_features);
  const std::vector<float> x = random_floats(static_cast<std::size_t>(rows) * in, 11);
  const std::vector<float> actual = floats_of(matrix.multiply(array_of(x, {rows, m.view.in_features})));
  ASSERT_EQ(actual.size(), static_cast<std::size_t>(rows) * out);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const float* row = x.data() + i / out * in;
    const RoundedRow as_int8 = rounded(row, m.view.in_features);
    double exact = 0;
    double sum = 0;
    double magnitude = 0;
    double rounding = 0;
    for (std::size_t k = 0; k < in; ++k) {
      const double weight = m.values[i % out * in + k];
      exact += weight * double{row[k]};
      sum += weight * as_int8.values[k];
      magnitude += (std::abs(weight) + 8.0) * std::abs(as_int8.values[k]);  // the parts scale * q and bias are below 8
      rounding += std::abs(weight) * as_int8.steps[k] * 0.5001;
    }
    ASSERT_NEAR(actual[i], sum, 1e-6 * magnitude) << "element " << i << ", bits " << m.view.bits;
    ASSERT_NEAR(actual[i], exact, rounding + 1e-6 * magnitude) << "element " << i << ", bits " << m.view.bits;
  }
}

TEST_P(Int8MatmulTest, StaysWithinHalfAStepPerActivationOfFloat64) {
  const auto kernels = int8();
  for (const int bits : {4, 8}) {
    for (const int group_size : {32, 64, 128}) {
      for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
        const auto m = quantized_matrix(77, 384, bits, group_size, type);
        const auto matrix = kernels->make_matrix(m->view);
        for (const int rows : {1, 2, 4, 9}) ASSERT_NO_FATAL_FAILURE(expect_int8_product(*matrix, *m, rows));
      }
    }
  }
}

TEST_P(Int8MatmulTest, GivesARowTheSameBitsForAnyNumberOfRowsAndThreads) {
  constexpr int kMaxRows = 300;
  for (const auto& m :
       {quantized_matrix(203, 576, 4, 32, WeightType::kF16), quantized_matrix(203, 576, 8, 64, WeightType::kF32),
        quantized_matrix(96, 1536, 4, 128, WeightType::kBF16)}) {
    const mx::array x = random_array({kMaxRows, m->view.in_features}, 5);
    const auto alone = int8(1)->make_matrix(m->view);
    std::vector<std::uint32_t> expected;
    for (int row = 0; row < kMaxRows; ++row) {
      const auto bits = bits_of(alone->multiply(rows_of(x, row, row + 1)));
      expected.insert(expected.end(), bits.begin(), bits.end());
    }
    for (const int threads : {1, 2, 4}) {
      const auto kernels = int8(threads);
      const auto matrix = kernels->make_matrix(m->view);
      for (const int rows :
           {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 19, 20, 21, 22, 23, 33, 128, 133, 134, kMaxRows}) {
        const auto count = static_cast<std::ptrdiff_t>(rows) * m->view.out_features;
        const std::vector<std::uint32_t> wanted(expected.end() - count, expected.end());
        ASSERT_EQ(bits_of(matrix->multiply(rows_of(x, kMaxRows - rows, kMaxRows))), wanted)
            << rows << " rows, " << threads << " threads, bits " << m->view.bits;
      }
    }
  }
}

TEST_P(Int8MatmulTest, GivesTheSameBitsInEveryVariant) {
  for (const int bits : {4, 8}) {
    for (const int group_size : {32, 64, 128}) {
      const auto m = quantized_matrix(77, 384, bits, group_size, WeightType::kF16);
      const mx::array x = mx::multiply(random_array({23, 384}, 6), random_array({23, 1}, 7, 1e3F));
      const auto portable = int8_kernels(cpu::Variant::kPortable)->make_matrix(m->view);
      const auto matrix = int8()->make_matrix(m->view);
      for (const int rows : {1, 9, 23}) {
        const mx::array some = rows_of(x, 0, rows);
        EXPECT_EQ(bits_of(matrix->multiply(some)), bits_of(portable->multiply(some)))
            << bits << " bits in groups of " << group_size << ", " << rows << " rows";
      }
    }
  }
}

/// The largest weights and activations of either sign: sums that would overflow 16 bits must not.
TEST_P(Int8MatmulTest, SumsTheLargestValuesExactly) {
  constexpr int kInputs = 256;
  for (const int bits : {4, 8}) {
    auto m = quantized_matrix(5, kInputs, bits, 64, WeightType::kF32);
    std::ranges::fill(m->weight, std::byte{0xff});
    std::vector<float> ones(m->scales.size() / sizeof(float), 1.0F);
    std::memcpy(m->scales.data(), ones.data(), m->scales.size());
    std::ranges::fill(m->biases, std::byte{0});
    const auto matrix = int8()->make_matrix(m->view);
    for (const float value : {127.0F, -127.0F}) {
      const float expected = static_cast<float>((1 << bits) - 1) * value * kInputs;
      const auto product = floats_of(matrix->multiply(mx::full({3, kInputs}, value)));
      EXPECT_THAT(product, testing::Each(expected)) << bits << " bits";
    }
  }
}

TEST_P(Int8MatmulTest, ShowsAValueThatIsNotFiniteInItsRowAlone) {
  const auto m = quantized_matrix(40, 64, 4, 32, WeightType::kF16);
  const auto matrix = int8()->make_matrix(m->view);
  const std::vector<float> good = random_floats(std::size_t{3} * 64, 8);
  const auto expected = floats_of(matrix->multiply(array_of(good, {3, 64})));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = good;
    x[64 + 37] = bad;
    const auto product = floats_of(matrix->multiply(array_of(x, {3, 64})));
    for (std::size_t i = 0; i < product.size(); ++i) {
      if (i / 40 == 1) {
        EXPECT_TRUE(std::isnan(product[i]));
      } else {
        EXPECT_EQ(product[i], expected[i]);
      }
    }
  }
}

TEST_P(Int8MatmulTest, TakesGroupsOfZerosAndOfSubnormalsForZero) {
  const auto m = quantized_matrix(8, 64, 8, 32, WeightType::kF16);
  const auto matrix = int8()->make_matrix(m->view);
  for (const float tiny : {0.0F, 1e-42F, -1e-31F}) {
    EXPECT_THAT(floats_of(matrix->multiply(mx::full({2, 64}, tiny))), testing::Each(0.0F)) << tiny;
  }
}

TEST_P(Int8MatmulTest, LeavesOtherWeightsToFloat32) {
  for (const auto& m : {quantized_matrix(40, 320, 5, 32, WeightType::kF16),
                        quantized_matrix(40, 320, 4, 16, WeightType::kF16), dense_matrix(64, 96, WeightType::kBF16)}) {
    const mx::array x = random_array({5, m->view.in_features}, 9);
    EXPECT_EQ(bits_of(int8()->make_matrix(m->view)->multiply(x)), bits_of(cpu()->make_matrix(m->view)->multiply(x)));
  }
}

TEST_P(Int8MatmulTest, SaysSoInTheNameOfTheKernelSet) {
  EXPECT_EQ(int8()->name(), std::string(cpu()->name()) + "-int8");
  EXPECT_THAT(make_kernels({.num_threads = 1, .activations = Activations::kInt8})->name(), testing::EndsWith("-int8"));
}

}  // namespace
}  // namespace redpoll::kernels
