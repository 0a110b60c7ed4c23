// Matrix: products and gathered rows of every format against float64, and their independence of the number of rows
// and threads.
#include <cmath>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

struct Product {
  std::vector<double> value;      // (rows, out)
  std::vector<double> magnitude;  // the same sums over absolute values: what rounding errors are relative to
};

Product exact_product(const TestMatrix& m, const std::vector<float>& x) {
  const auto in = static_cast<std::size_t>(m.view.in_features);
  const auto out = static_cast<std::size_t>(m.view.out_features);
  Product product;
  for (std::size_t row = 0; row < x.size() / in; ++row) {
    for (std::size_t n = 0; n < out; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < in; ++k) {
        const double value = x[row * in + k];
        sum += m.values[n * in + k] * value;
        magnitude += m.magnitudes[n * in + k] * std::abs(value);
      }
      product.value.push_back(sum);
      product.magnitude.push_back(magnitude);
    }
  }
  return product;
}

/// float32 sums of up to 1,536 terms stay within 1e-6 of the sum of absolute values (one rounding is 6e-8).
void expect_product(const Matrix& matrix, const TestMatrix& m, int rows, float size = 1) {
  std::vector<float> x =
      random_floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(m.view.in_features), 11);
  for (float& value : x) value *= size;
  const mx::array y = matrix.multiply(array_of(x, {rows, m.view.in_features}));
  ASSERT_EQ(y.shape(), (mx::Shape{rows, m.view.out_features}));
  const std::vector<float> actual = floats_of(y);
  const Product expected = exact_product(m, x);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected.value[i], 1e-6 * expected.magnitude[i])
        << "element " << i << ", bits " << m.view.bits << ", group " << m.view.group_size;
  }
}

struct MatrixTest : CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(MatrixTest);

TEST_P(MatrixTest, MultipliesEveryQuantizedFormatLikeFloat64) {
  const auto kernels = cpu();
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group_size : {16, 32, 64, 128}) {
      if (group_size * bits % 32 != 0) continue;
      for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
        const auto m = quantized_matrix(45, 384, bits, group_size, type);
        const auto matrix = kernels->make_matrix(m->view);
        for (const int rows : {1, 2, 4, 9}) ASSERT_NO_FATAL_FAILURE(expect_product(*matrix, *m, rows));
      }
    }
  }
}

TEST_P(MatrixTest, MultipliesEveryDenseTypeLikeFloat64) {
  const auto kernels = cpu();
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    for (const auto& [out, in] : {std::pair{33, 577}, {1, 1}, {8, 31}, {64, 300}}) {
      const auto m = dense_matrix(out, in, type);
      const auto matrix = kernels->make_matrix(m->view);
      for (const int rows : {1, 3, 4, 7}) ASSERT_NO_FATAL_FAILURE(expect_product(*matrix, *m, rows));
    }
  }
}

TEST_P(MatrixTest, MultipliesTheStarterModelsShapes) {
  const auto kernels = cpu();
  for (const auto& [out, in] : {std::pair{960, 576}, {576, 1536}}) {
    const auto m = quantized_matrix(out, in, 4, 32, WeightType::kF16);
    const auto matrix = kernels->make_matrix(m->view);
    for (const int rows : {1, 6}) ASSERT_NO_FATAL_FAILURE(expect_product(*matrix, *m, rows));
  }
}

/// Weights stay where they stand in their words, up to 2^28 too large, and activations are made smaller in return.
TEST_P(MatrixTest, MultipliesVerySmallAndVeryLargeActivations) {
  const auto kernels = cpu();
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    const auto m = quantized_matrix(45, 384, bits, 32, WeightType::kF32);
    const auto matrix = kernels->make_matrix(m->view);
    for (const int rows : {1, 30}) {
      for (const float size : {1e-28F, 1e32F}) ASSERT_NO_FATAL_FAILURE(expect_product(*matrix, *m, rows, size));
    }
  }
}

/// The result of one row must have the same bits whatever comes with it and whoever computes it.
TEST_P(MatrixTest, GivesARowTheSameBitsForAnyNumberOfRowsAndThreads) {
  for (const auto& m :
       {quantized_matrix(203, 576, 4, 32, WeightType::kF16), quantized_matrix(203, 576, 8, 64, WeightType::kF32),
        quantized_matrix(96, 1536, 4, 128, WeightType::kBF16), quantized_matrix(40, 320, 5, 32, WeightType::kF16),
        quantized_matrix(40, 320, 6, 16, WeightType::kF32), quantized_matrix(40, 320, 3, 32, WeightType::kF16),
        quantized_matrix(40, 336, 2, 16, WeightType::kF32), dense_matrix(203, 577, WeightType::kBF16),
        dense_matrix(64, 576, WeightType::kF32)}) {
    ASSERT_NO_FATAL_FAILURE(expect_same_bits_in_any_company(*m, [](int threads) { return cpu(threads); }));
  }
}

/// Products of matrices of one input, some of which round it alike, some otherwise and some not at all.
void expect_products_together(const Kernels& kernels, int rows) {
  const std::vector<std::shared_ptr<TestMatrix>> tests{
      quantized_matrix(203, 384, 4, 32, WeightType::kF16), quantized_matrix(40, 384, 4, 32, WeightType::kF32, 2),
      quantized_matrix(64, 384, 4, 64, WeightType::kF16),  quantized_matrix(33, 384, 8, 32, WeightType::kF16),
      quantized_matrix(48, 384, 6, 16, WeightType::kF32),  dense_matrix(7, 384, WeightType::kBF16)};
  std::vector<std::shared_ptr<const Matrix>> matrices;
  std::vector<const Matrix*> pointers;
  for (const auto& test : tests) pointers.push_back(matrices.emplace_back(kernels.make_matrix(test->view)).get());
  const mx::array x = random_array({rows, 384}, 5);
  const std::vector<mx::array> products = kernels.multiply_all(x, pointers);
  ASSERT_EQ(products.size(), matrices.size());
  for (std::size_t i = 0; i < products.size(); ++i) {
    EXPECT_EQ(products[i].shape(), (mx::Shape{rows, matrices[i]->out_features()}));
    EXPECT_EQ(bits_of(products[i]), bits_of(matrices[i]->multiply(x))) << "matrix " << i << ", " << rows << " rows";
  }
}

TEST_P(MatrixTest, MultipliesSeveralMatricesAsItDoesEach) {
  for (const Activations activations : {Activations::kFloat32, Activations::kInt16, Activations::kInt8}) {
    for (const int threads : {1, 3}) {
      const cpu::CpuKernels kernels(GetParam(), threads, activations);
      for (const int rows : {1, 5, 150}) expect_products_together(kernels, rows);
    }
  }
}

TEST_P(MatrixTest, GathersTheRowsThatTheReferenceGathers) {
  const auto kernels = cpu();
  const ReferenceKernels reference;
  const std::vector<std::int32_t> ids{0, 44, 7, 7, 13, 8, 31, 32, 1, 2, 3, 4, 5, 6, 40, 41, 42, 43};
  const mx::array rows(ids.data(), {static_cast<int>(ids.size())}, mx::int32);
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group_size : {16, 64}) {
      if (group_size * bits % 32 != 0) continue;
      const auto m = quantized_matrix(45, 384, bits, group_size, WeightType::kF16);
      const mx::array expected = reference.make_matrix(m->view)->gather_rows(rows);
      EXPECT_EQ(bits_of(kernels->make_matrix(m->view)->gather_rows(rows)), bits_of(expected))
          << bits << " bits in groups of " << group_size;
    }
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    const auto m = dense_matrix(45, 37, type);
    const mx::array expected = reference.make_matrix(m->view)->gather_rows(rows);
    EXPECT_EQ(bits_of(kernels->make_matrix(m->view)->gather_rows(rows)), bits_of(expected));
  }
}

TEST_P(MatrixTest, WidensSubnormalInfiniteAndNotANumberHalves) {
  const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e01};
  const auto bytes = std::as_bytes(std::span(halves));
  const int out = static_cast<int>(halves.size());
  const MatrixWeights view{.out_features = out,
                           .in_features = 1,
                           .type = WeightType::kF16,
                           .weight = bytes,
                           .scales = {},
                           .biases = {},
                           .storage = nullptr};
  const auto matrix = cpu()->make_matrix(view);
  const std::vector<float> expected{0.0F, -0.0F, 0x1p-24F, -0x1.ff8p-15F, 0x1p-14F, 65504.0F, HUGE_VALF, -HUGE_VALF};
  std::vector<std::int32_t> ids(halves.size());
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<float> gathered = floats_of(matrix->gather_rows(mx::array(ids.data(), {out}, mx::int32)));
  const std::vector<float> product = floats_of(matrix->multiply(mx::array({1.0F}, {1, 1})));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(gathered[i], expected[i]);
    EXPECT_EQ(product[i], expected[i]);
  }
  EXPECT_TRUE(std::isnan(gathered.back()));
  EXPECT_TRUE(std::isnan(product.back()));
}

TEST_P(MatrixTest, KeepsNoReferenceToTheCheckpointsBytes) {
  auto m = quantized_matrix(64, 64, 4, 32, WeightType::kF16);
  const std::weak_ptr<TestMatrix> alive = m;
  const auto kernels = cpu();
  MatrixWeights view = m->view;
  view.storage = std::move(m);
  const auto matrix = kernels->make_matrix(std::move(view));
  EXPECT_TRUE(alive.expired());
  // 64 rows of 2 groups: 16 bytes of values, 2 of scale and 2 of bias each.
  EXPECT_EQ(matrix->num_bytes(), 64U * 2U * (16U + 4U));
}

TEST_P(MatrixTest, ReadsBytesAtAnyAddress) {
  const auto m = quantized_matrix(32, 64, 4, 32, WeightType::kF16);
  std::vector<std::byte> shifted(m->weight.size() + 1);
  std::ranges::copy(m->weight, shifted.begin() + 1);
  MatrixWeights view = m->view;
  view.weight = std::span(shifted).subspan(1);
  const mx::array x = random_array({3, 64}, 2);
  const auto kernels = cpu();
  EXPECT_EQ(bits_of(kernels->make_matrix(view)->multiply(x)), bits_of(kernels->make_matrix(m->view)->multiply(x)));
  const ReferenceKernels reference;
  EXPECT_EQ(bits_of(reference.make_matrix(view)->multiply(x)), bits_of(reference.make_matrix(m->view)->multiply(x)));
}

TEST(ReferenceMatrixTest, MultipliesLikeFloat64) {
  const ReferenceKernels reference;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    const auto m = quantized_matrix(45, 384, bits, 64, WeightType::kF16);
    ASSERT_NO_FATAL_FAILURE(expect_product(*reference.make_matrix(m->view), *m, 5));
  }
  const auto m = dense_matrix(45, 384, WeightType::kBF16);
  ASSERT_NO_FATAL_FAILURE(expect_product(*reference.make_matrix(m->view), *m, 5));
}

}  // namespace
}  // namespace redpoll::kernels
