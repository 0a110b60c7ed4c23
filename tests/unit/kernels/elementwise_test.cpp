// Norms, activations, rotations and row picking against the reference and float64.
#include <mlx/random.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

constexpr float kEps = 1e-5F;

struct ElementwiseTest : CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(ElementwiseTest);

TEST_P(ElementwiseTest, NormalizesLikeTheReference) {
  const ReferenceKernels reference;
  for (const int dim : {1, 7, 8, 31, 64, 80, 576, 1000}) {
    const mx::array x = random_array({5, dim}, 1, 3.0F);
    const mx::array weight = random_array({dim}, 2);
    expect_near(cpu()->rms_norm(x, weight, kEps), reference.rms_norm(x, weight, kEps), 1e-7F, 2e-6F);
  }
  const mx::array heads = random_array({6, 9, 64}, 3);  // q_norm and k_norm
  const mx::array weight = random_array({64}, 4);
  expect_near(cpu()->rms_norm(heads, weight, kEps), reference.rms_norm(heads, weight, kEps), 1e-7F, 2e-6F);
}

TEST_P(ElementwiseTest, NormalizesTheResidualSumLikeSumAndNorm) {
  const auto kernels = cpu();
  const mx::array x = random_array({70, 577}, 1);
  const mx::array residual = random_array({70, 577}, 2);
  const mx::array weight = random_array({577}, 3);
  const ResidualNorm both = kernels->add_rms_norm(x, residual, weight, kEps);
  const mx::array sum = mx::add(x, residual);
  EXPECT_EQ(bits_of(both.sum), bits_of(sum));
  EXPECT_EQ(bits_of(both.normalized), bits_of(kernels->rms_norm(sum, weight, kEps)));
}

TEST_P(ElementwiseTest, AddsAndScalesLikeTheReferenceToTheBit) {
  const ReferenceKernels reference;
  const mx::array x = random_array({41, 999}, 1);
  const mx::array bias = random_array({999}, 3);
  EXPECT_EQ(bits_of(cpu()->add_bias(x, bias)), bits_of(reference.add_bias(x, bias)));
  const mx::array y = random_array({41, 999}, 4);
  EXPECT_EQ(bits_of(cpu()->add(x, y)), bits_of(reference.add(x, y)));
  EXPECT_EQ(bits_of(cpu()->scale(x, 0.3F)), bits_of(reference.scale(x, 0.3F)));
}

TEST_P(ElementwiseTest, FindsTheRowsThatAreNotFinite) {
  const auto fast = cpu();
  const ReferenceKernels reference;
  const std::vector<const Kernels*> sets{fast.get(), &reference};
  const float infinite = std::numeric_limits<float>::infinity();
  for (const int dim : {1, 15, 16, 17, 577}) {
    for (const float bad : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> numbers = random_floats(static_cast<std::size_t>(70 * dim), 1, 3.0F);
      numbers.front() = std::numeric_limits<float>::max();
      numbers[static_cast<std::size_t>(3 * dim)] = bad;
      numbers[static_cast<std::size_t>(41 * dim - 1)] = bad;
      for (const Kernels* kernels : sets) {
        mx::array finite = kernels->finite_rows(array_of(numbers, {70, dim}));
        finite.eval();
        ASSERT_EQ(finite.dtype(), mx::bool_);
        for (int i = 0; i < 70; ++i) ASSERT_EQ(finite.data<bool>()[i], i != 3 && i != 40) << i << " of " << dim;
      }
    }
  }
}

TEST_P(ElementwiseTest, GatesLikeFloat64) {
  std::vector<float> gate = random_floats(20'003, 1, 4.0F);
  for (int i = 0; i < 2'000; ++i) gate[static_cast<std::size_t>(i)] = static_cast<float>(i - 1'000) * 0.1F;
  const std::vector<float> up = random_floats(gate.size(), 2);
  const int size = static_cast<int>(gate.size());
  const std::vector<float> out =
      floats_of(cpu()->gate_multiply(array_of(gate, {1, size}), array_of(up, {1, size}), GateActivation::kSilu));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double expected = double{gate[i]} / (1.0 + std::exp(-double{gate[i]})) * double{up[i]};
    // Below -87 the exponential is clamped; the exact result is less than 1e-35 there.
    ASSERT_NEAR(out[i], expected, 1e-34 + 4e-7 * std::abs(expected)) << "gate " << gate[i];
  }
}

double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

TEST_P(ElementwiseTest, GatesWithGeluLikeFloat64) {
  std::vector<float> gate = random_floats(20'003, 5, 4.0F);
  for (int i = 0; i < 2'000; ++i) gate[static_cast<std::size_t>(i)] = static_cast<float>(i - 1'000) * 0.1F;
  const std::vector<float> up = random_floats(gate.size(), 6);
  const int size = static_cast<int>(gate.size());
  const std::vector<float> out =
      floats_of(cpu()->gate_multiply(array_of(gate, {1, size}), array_of(up, {1, size}), GateActivation::kGeluTanh));
  for (std::size_t i = 0; i < out.size(); ++i) {
    // float64 loses what tanh comes near to -1 by; below -5 the exact result is less than 1e-6 of the gate.
    const double expected = gelu(double{gate[i]}) * double{up[i]};
    ASSERT_NEAR(out[i], expected, 1e-14 + 4e-6 * std::abs(expected)) << "gate " << gate[i];
  }
}

TEST_P(ElementwiseTest, NormalizesByMeanAndVarianceLikeFloat64) {
  const ReferenceKernels reference;
  for (const int dim : {5, 64, 77, 576}) {
    const std::vector<float> x = random_floats(static_cast<std::size_t>(3 * dim), 1);
    const std::vector<float> weight = random_floats(static_cast<std::size_t>(dim), 2);
    const std::vector<float> bias = random_floats(static_cast<std::size_t>(dim), 3);
    const mx::array in = mx::add(array_of(x, {3, dim}), mx::array(100.0F));  // a mean to take away
    const mx::array w = array_of(weight, {dim});
    const mx::array b = array_of(bias, {dim});
    const std::vector<float> values = floats_of(in);
    const std::vector<float> out = floats_of(cpu()->layer_norm(in, w, b, kEps));
    for (std::size_t row = 0; row < 3; ++row) {
      const std::span own = std::span(values).subspan(row * weight.size(), weight.size());
      double mean = 0;
      for (const float value : own) mean += double{value} / dim;
      double variance = 0;
      for (const float value : own) variance += (double{value} - mean) * (double{value} - mean) / dim;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const double expected = (double{own[i]} - mean) / std::sqrt(variance + double{kEps}) * double{weight[i]};
        ASSERT_NEAR(out[row * own.size() + i], expected + double{bias[i]}, 1e-4) << "dim " << dim;
      }
    }
    expect_near(reference.layer_norm(in, w, b, kEps), array_of(out, {3, dim}), 5e-4F,
                5e-4F);  // whose mean is rounded more
  }
}

TEST_P(ElementwiseTest, GeluIsThatOfGatesWithoutWhatTheyGate) {
  const mx::array x = random_array({7, 77}, 4, 3.0F);
  const mx::array gated = cpu()->gate_multiply(x, mx::ones({7, 77}), GateActivation::kGeluTanh);
  EXPECT_EQ(bits_of(cpu()->gelu_tanh(x)), bits_of(gated));
  expect_near(ReferenceKernels().gelu_tanh(x), gated, 2e-6F, 2e-6F);
}

TEST_P(ElementwiseTest, GatesWithAClampedSiluLikeFloat64) {
  const std::vector<float> gate = random_floats(10'003, 5, 6.0F);
  const std::vector<float> up = random_floats(gate.size(), 6, 6.0F);
  const int size = static_cast<int>(gate.size());
  const mx::array g = array_of(gate, {1, size});
  const mx::array u = array_of(up, {1, size});
  const std::vector<float> out = floats_of(cpu()->gate_multiply(g, u, GateActivation::kClampedSilu));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double low = std::min(double{gate[i]}, 7.0);
    const double expected = low / (1 + std::exp(-1.702 * low)) * (std::clamp(double{up[i]}, -7.0, 7.0) + 1);
    ASSERT_NEAR(out[i], expected, 4e-6 * std::abs(expected) + 1e-12) << "gate " << gate[i] << ", up " << up[i];
  }
  const ReferenceKernels reference;
  expect_near(reference.gate_multiply(g, u, GateActivation::kClampedSilu), array_of(out, {1, size}), 4e-6F, 4e-6F);
}

TEST_P(ElementwiseTest, GatesWithSigmoidsAndPlainProducts) {
  const std::vector<float> gate = random_floats(10'003, 5, 4.0F);
  const std::vector<float> up = random_floats(gate.size(), 6);
  const int size = static_cast<int>(gate.size());
  const mx::array g = array_of(gate, {1, size});
  const mx::array u = array_of(up, {1, size});
  const std::vector<float> shares = floats_of(cpu()->gate_multiply(g, u, GateActivation::kSigmoid));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double expected = double{up[i]} / (1 + std::exp(-double{gate[i]}));
    ASSERT_NEAR(shares[i], expected, 2e-6 * std::abs(expected) + 1e-30) << "gate " << gate[i];
  }
  const ReferenceKernels reference;
  EXPECT_EQ(bits_of(cpu()->gate_multiply(g, u, GateActivation::kIdentity)), bits_of(mx::multiply(g, u)));
  expect_near(reference.gate_multiply(g, u, GateActivation::kSigmoid), array_of(shares, {1, size}), 2e-6F, 2e-6F);
  EXPECT_EQ(bits_of(reference.gate_multiply(g, u, GateActivation::kIdentity)), bits_of(mx::multiply(g, u)));
}

TEST_P(ElementwiseTest, CapsLikeFloat64) {
  std::vector<float> x = random_floats(10'001, 7, 20.0F);
  x[0] = 1e30F;
  x[1] = -1e30F;
  x[2] = 0.0F;
  const std::vector<float> out = floats_of(cpu()->softcap(array_of(x, {1, static_cast<int>(x.size())}), 30.0F));
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], 30.0 * std::tanh(double{x[i]} / 30.0), 30 * 2e-7) << x[i];
  }
}

TEST_P(ElementwiseTest, LetsNotANumberThroughAndInfinitySaturate) {
  const mx::array gate({NAN, INFINITY, -INFINITY, 1.0F}, {1, 4});
  const std::vector<float> out = floats_of(cpu()->gate_multiply(gate, mx::ones({1, 4}), GateActivation::kSilu));
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], INFINITY);
  EXPECT_TRUE(std::isnan(floats_of(cpu()->gate_multiply(gate, mx::ones({1, 4}), GateActivation::kGeluTanh))[0]));
  EXPECT_TRUE(std::isnan(floats_of(cpu()->softcap(gate, 30.0F))[0]));
  EXPECT_TRUE(std::isnan(floats_of(cpu()->rms_norm(gate, mx::ones({4}), kEps))[3]));
  EXPECT_NEAR(out[3], 0.731058578630005F, 1e-7F);
}

RopeSpec rope_spec(int head_dim, int dims, bool interleaved) {
  RopeSpec spec{.head_dim = head_dim, .dims = dims, .interleaved = interleaved, .inverse_frequencies = {}};
  for (int i = 0; i < dims / 2; ++i) {
    spec.periods.push_back(std::pow(1e5F, 2.0F * static_cast<float>(i) / static_cast<float>(dims)));
    spec.inverse_frequencies.push_back(1.0F / spec.periods.back());
  }
  return spec;
}

/// Rotations of unit-scale values by float32 angles up to 8,000 radians: both sides reduce the same float exactly.
TEST_P(ElementwiseTest, RotatesLikeTheReference) {
  const ReferenceKernels reference;
  const RaggedBatch batch = make_batch({{0, 20}, {8'000, 30}, {77, 1}}, 16, 600);
  for (const int head_dim : {64, 80, 6}) {
    for (const int dims : {head_dim, head_dim - 2}) {
      for (const bool interleaved : {false, true}) {
        RopeSpec spec = rope_spec(head_dim, dims, interleaved);
        if (dims < head_dim) spec.scale = 1.2F;  // the rest of the head keeps its size
        const mx::array x = random_array({51, 3, head_dim}, 6);
        const mx::array rotated = cpu()->rope(x, batch, spec);
        expect_near(rotated, reference.rope(x, batch, spec), 2e-6F, 0.0F);
        const mx::array flat = mx::reshape(x, {51, 3 * head_dim});
        EXPECT_EQ(bits_of(cpu()->rope(flat, batch, spec)), bits_of(rotated));
        EXPECT_EQ(reference.rope(flat, batch, spec).shape(), flat.shape());
      }
    }
  }
}

TEST(ReferenceRopeTest, RotatesLikeFloat64) {
  const RaggedBatch batch = make_batch({{100, 3}}, 16, 600);
  for (const bool interleaved : {false, true}) {
    RopeSpec spec = rope_spec(8, 8, interleaved);
    spec.scale = 1.2F;
    const mx::array x = random_array({3, 2, 8}, 6);
    const std::vector<float> in = floats_of(x);
    const std::vector<float> out = floats_of(ReferenceKernels().rope(x, batch, spec));
    for (std::size_t head = 0; head < 6; ++head) {
      for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t a = head * 8 + (interleaved ? 2 * i : i);
        const std::size_t b = interleaved ? a + 1 : a + 4;
        const std::size_t position = 100 + head / 2;  // two heads a token
        const double angle = static_cast<double>(position) * double{spec.inverse_frequencies[i]};
        EXPECT_NEAR(out[a], 1.2 * (in[a] * std::cos(angle) - in[b] * std::sin(angle)), 2e-5);
        EXPECT_NEAR(out[b], 1.2 * (in[a] * std::sin(angle) + in[b] * std::cos(angle)), 2e-5);
      }
    }
  }
}

TEST_P(ElementwiseTest, RotatesByTheBatchAtHandNotByAnEarlierOne) {
  const auto kernels = cpu();
  const RopeSpec spec = rope_spec(16, 16, false);
  const RopeSpec other = rope_spec(16, 16, true);
  const mx::array x = random_array({1, 2, 16}, 8);
  const RaggedBatch first = make_batch({{5, 1}}, 16, 4);
  const RaggedBatch second = make_batch({{6, 1}}, 16, 4);
  const auto expected = bits_of(cpu()->rope(x, second, spec));
  const auto at_first = bits_of(kernels->rope(x, first, spec));
  EXPECT_NE(at_first, expected);
  EXPECT_EQ(bits_of(kernels->rope(x, second, spec)), expected);
  static_cast<void>(kernels->rope(x, first, other));
  RopeSpec larger = spec;
  larger.scale = 2;
  EXPECT_NE(bits_of(kernels->rope(x, first, larger)), at_first);
  EXPECT_EQ(bits_of(kernels->rope(x, first, spec)), at_first);
}

TEST_P(ElementwiseTest, TakesRowsLikeTheReference) {
  const ReferenceKernels reference;
  const mx::array x = random_array({9, 37}, 1);
  EXPECT_EQ(bits_of(cpu()->take_rows(x, {0, 3, 8})), bits_of(reference.take_rows(x, {0, 3, 8})));
  EXPECT_EQ(bits_of(cpu()->take_columns(x, 5, 17)), bits_of(reference.take_columns(x, 5, 17)));
}

TEST_P(ElementwiseTest, AcceptsLazyStridedAndHalfPrecisionInputs) {
  const auto kernels = cpu();
  const mx::array base = random_array({12, 40}, 1);
  const mx::array ones = mx::ones({12});
  EXPECT_EQ(bits_of(kernels->add_bias(mx::transpose(base), ones)), bits_of(mx::add(mx::transpose(base), ones)));
  const mx::array half = mx::astype(base, mx::float16);
  EXPECT_EQ(bits_of(kernels->add_bias(half, mx::zeros({40}))), bits_of(mx::astype(half, mx::float32)));
  const mx::array reshaped = mx::reshape(mx::reshape(base, {480}), {4, 120});
  EXPECT_EQ(bits_of(kernels->take_rows(reshaped, {1})), bits_of(rows_of(reshaped, 1, 2)));
}

}  // namespace
}  // namespace redpoll::kernels
