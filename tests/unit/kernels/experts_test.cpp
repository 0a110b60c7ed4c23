// Mixtures of experts: who is chosen, with what weight, and what their sum is.
#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

class ExpertsTest : public CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(ExpertsTest);

std::vector<std::int32_t> ids_of(const mx::array& x) {
  mx::array ids = mx::contiguous(x);
  ids.eval();
  return {ids.data<std::int32_t>(), ids.data<std::int32_t>() + ids.size()};
}

std::vector<std::unique_ptr<Kernels>> both_kernels() {
  std::vector<std::unique_ptr<Kernels>> kernels;
  kernels.push_back(std::make_unique<ReferenceKernels>());
  kernels.push_back(make_kernels({.num_threads = 2}));
  return kernels;
}

/// Experts of each token by descending weight, as (expert, weight): kernel sets name them in orders of their own.
std::vector<std::pair<std::int32_t, float>> by_weight(const Routing& routing) {
  const std::vector<std::int32_t> experts = ids_of(routing.experts);
  const std::vector<float> weights = floats_of(routing.weights);
  std::vector<std::pair<std::int32_t, float>> chosen;
  for (std::size_t i = 0; i < experts.size(); ++i) chosen.emplace_back(experts[i], weights[i]);
  const auto top_k = static_cast<std::size_t>(routing.experts.shape(1));
  for (std::size_t first = 0; first < chosen.size(); first += top_k) {
    std::ranges::sort(std::span(chosen).subspan(first, top_k), std::greater<>(),
                      &std::pair<std::int32_t, float>::second);
  }
  return chosen;
}

TEST(RoutingTest, ChoosesTheLargest) {
  const mx::array logits({0.0F, 3.0F, 1.0F, 3.0F, 2.0F, 2.5F, -1.0F, -1.0F, -1.0F, -1.0F, -1.0F, -1.0F}, {2, 6});
  for (const auto& kernels : both_kernels()) {
    const auto chosen = by_weight(kernels->route(logits, {.top_k = 2}));
    EXPECT_EQ((std::set{chosen[0].first, chosen[1].first}), (std::set{1, 3})) << kernels->name();
    EXPECT_NE(chosen[2].first, chosen[3].first);
    for (const auto& [expert, weight] : chosen) EXPECT_FLOAT_EQ(weight, 0.5F);
  }
}

TEST(RoutingTest, OfEqualsTheFirstAreChosenOnACpu) {
  const mx::array logits({0.0F, 3.0F, 1.0F, 3.0F, 2.0F, 3.0F, -1.0F, -1.0F, -1.0F, -1.0F, -1.0F, -1.0F}, {2, 6});
  const Routing routing = make_kernels({.num_threads = 2})->route(logits, {.top_k = 2});
  EXPECT_EQ(ids_of(routing.experts), (std::vector<std::int32_t>{1, 3, 0, 1}));
}

TEST(RoutingTest, WeightsAreSharesOfTheChosenOrOfAll) {
  const mx::array logits({0.0F, std::log(2.0F), std::log(4.0F), 0.0F}, {1, 4});
  for (const auto& kernels : both_kernels()) {
    for (const RoutingWeights weights : {RoutingWeights::kNormalizedSoftmax, RoutingWeights::kSoftmaxOfChosen}) {
      const auto chosen = by_weight(kernels->route(logits, {.top_k = 2, .weights = weights}));
      EXPECT_EQ(chosen[0].first, 2);
      EXPECT_EQ(chosen[1].first, 1);
      EXPECT_NEAR(chosen[0].second, 4.0 / 6, 1e-6);
      EXPECT_NEAR(chosen[1].second, 2.0 / 6, 1e-6);
    }
    const auto all = by_weight(kernels->route(logits, {.top_k = 2, .weights = RoutingWeights::kSoftmax}));
    EXPECT_NEAR(all[0].second, 4.0 / 8, 1e-6);
    EXPECT_NEAR(all[1].second, 2.0 / 8, 1e-6);
  }
}

TEST(RoutingTest, ExpertsMayHaveScalesOfTheirOwn) {
  const mx::array logits({0.0F, std::log(2.0F), std::log(4.0F), 0.0F}, {1, 4});
  const RoutingSpec spec{.top_k = 2, .expert_scales = mx::array({1.0F, 10.0F, 100.0F, 1.0F}, {4})};
  for (const auto& kernels : both_kernels()) {
    const auto chosen = by_weight(kernels->route(logits, spec));
    EXPECT_NEAR(chosen[0].second, 400.0 / 6, 1e-4) << kernels->name();
    EXPECT_NEAR(chosen[1].second, 20.0 / 6, 1e-5);
  }
}

TEST(RoutingTest, LogitsThatAreNoNumbersStillChooseExpertsThatExist) {
  const auto kernels = make_kernels({.num_threads = 1});
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(i % 3 == 0 ? NAN : static_cast<float>(i * 7 % 11));
  const Routing routing = kernels->route(array_of(values, {1, 64}), {.top_k = 50});
  const std::vector<std::int32_t> chosen = ids_of(routing.experts);
  EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), 50U);
  for (const std::int32_t expert : chosen) {
    EXPECT_GE(expert, 0);
    EXPECT_LT(expert, 64);
  }
  for (std::size_t i = 0; i + 1 < 42; ++i) {  // numbers first, the largest first
    EXPECT_GE(values[static_cast<std::size_t>(chosen[i])], values[static_cast<std::size_t>(chosen[i + 1])]);
  }
}

constexpr int kExperts = 5;
constexpr int kIn = 64;
constexpr int kInner = 96;

/// Weights of some experts, 4-bit or dense.
struct TestExperts {
  std::vector<std::shared_ptr<TestMatrix>> matrices;

  TestExperts(bool quantized, int out, int in, unsigned seed) {
    for (unsigned i = 0; i < kExperts; ++i) {
      matrices.push_back(quantized ? quantized_matrix(out, in, 4, 32, WeightType::kF16, seed + i)
                                   : dense_matrix(out, in, WeightType::kBF16, seed + i));
    }
  }
  [[nodiscard]] std::shared_ptr<const Experts> load(const Kernels& kernels) const {
    std::vector<MatrixWeights> weights;
    for (const auto& matrix : matrices) weights.push_back(matrix->view);
    return kernels.make_experts(std::move(weights));
  }
};

struct TestMlps {
  TestExperts gate, up, down;

  explicit TestMlps(bool quantized)
      : gate(quantized, kInner, kIn, 10), up(quantized, kInner, kIn, 20), down(quantized, kIn, kInner, 30) {}
  [[nodiscard]] ExpertMlps load(const Kernels& kernels, GateActivation activation = GateActivation::kSilu) const {
    return {.gate = gate.load(kernels), .up = up.load(kernels), .down = down.load(kernels), .activation = activation};
  }
};

/// Float64, from the definition.
std::vector<double> exact_sum(const TestMlps& mlps, const std::vector<float>& x,
                              const std::vector<std::int32_t>& experts, const std::vector<float>& weights) {
  const auto multiply = [](const TestMatrix& m, const std::vector<double>& row) {
    std::vector<double> out(m.values.size() / row.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (std::size_t k = 0; k < row.size(); ++k) out[i] += m.values[i * row.size() + k] * row[k];
    }
    return out;
  };
  std::vector<double> sums;
  const std::size_t tokens = x.size() / kIn;
  const std::size_t top_k = experts.size() / tokens;
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::vector<double> row(x.begin() + static_cast<std::ptrdiff_t>(t * kIn),
                                  x.begin() + static_cast<std::ptrdiff_t>((t + 1) * kIn));
    std::vector<double> sum(kIn);
    for (std::size_t j = t * top_k; j < (t + 1) * top_k; ++j) {
      const auto expert = static_cast<std::size_t>(experts[j]);
      std::vector<double> inner = multiply(*mlps.gate.matrices[expert], row);
      const std::vector<double> up = multiply(*mlps.up.matrices[expert], row);
      for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= up[i] / (1 + std::exp(-inner[i]));
      const std::vector<double> made = multiply(*mlps.down.matrices[expert], inner);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += double{weights[j]} * made[i];
    }
    sums.insert(sums.end(), sum.begin(), sum.end());
  }
  return sums;
}

TEST_P(ExpertsTest, SumsWhatTheExpertsMakeOfEachToken) {
  for (const bool quantized : {false, true}) {
    const TestMlps mlps(quantized);
    const mx::array x = random_array({37, kIn}, 1);
    const mx::array logits = random_array({37, kExperts}, 2);
    const ReferenceKernels reference;
    const Routing routing = reference.route(logits, {.top_k = 3});
    const std::vector<double> expected =
        exact_sum(mlps, floats_of(x), ids_of(routing.experts), floats_of(routing.weights));
    double scale = 0;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    const auto expect_exact = [&](const Kernels& kernels) {
      const Routing own = kernels.route(logits, {.top_k = 3});
      const std::vector<float> got = floats_of(kernels.run_experts(x, own, mlps.load(kernels)));
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-5 * scale) << kernels.name();
    };
    ASSERT_NO_FATAL_FAILURE(expect_exact(reference));
    ASSERT_NO_FATAL_FAILURE(expect_exact(*cpu()));
  }
}

TEST_P(ExpertsTest, ATokenGetsTheSameBitsInAnyCompany) {
  constexpr int kTokens = 140;
  const mx::array x = random_array({kTokens, kIn}, 1);
  const mx::array logits = random_array({kTokens, kExperts}, 2);
  for (const bool quantized : {false, true}) {
    const TestMlps mlps(quantized);
    const auto run = [&](const Kernels& kernels, const ExpertMlps& loaded, int first, int last) {
      const Routing routing = kernels.route(rows_of(logits, first, last), {.top_k = 2});
      return bits_of(kernels.run_experts(rows_of(x, first, last), routing, loaded));
    };
    const auto single = cpu(1);
    const ExpertMlps loaded = mlps.load(*single);
    std::vector<std::uint32_t> alone;
    for (int token = 0; token < kTokens; ++token) {
      const auto bits = run(*single, loaded, token, token + 1);
      alone.insert(alone.end(), bits.begin(), bits.end());
    }
    for (const int threads : {1, 2, 4}) {
      const auto kernels = cpu(threads);
      const ExpertMlps mine = mlps.load(*kernels);
      for (const int tokens : {1, 2, 7, 33, kTokens}) {
        const std::vector<std::uint32_t> wanted(alone.end() - std::ptrdiff_t{tokens} * kIn, alone.end());
        ASSERT_EQ(run(*kernels, mine, kTokens - tokens, kTokens), wanted) << tokens << " tokens, " << threads;
      }
    }
  }
}

TEST_P(ExpertsTest, AddsTheBiasOfEachExpert) {
  const TestMlps mlps(true);
  const ReferenceKernels reference;
  const auto fast = cpu();
  const mx::array x = random_array({9, kIn}, 1);
  const mx::array logits = random_array({9, kExperts}, 2);
  const auto run = [&](const Kernels& kernels) {
    ExpertMlps loaded = mlps.load(kernels, GateActivation::kClampedSilu);
    loaded.gate_bias = random_array({kExperts, kInner}, 3);
    loaded.up_bias = random_array({kExperts, kInner}, 4);
    loaded.down_bias = random_array({kExperts, kIn}, 5, 100.0F);
    return kernels.run_experts(x, kernels.route(logits, {.top_k = 3}), loaded);
  };
  const mx::array expected = run(reference);
  expect_near(run(*fast), expected, 2e-5F * mx::max(mx::abs(expected)).item<float>(), 0.0F);
}

TEST_P(ExpertsTest, AppliesTheActivationThatIsAskedFor) {
  const TestMlps mlps(true);
  const ReferenceKernels reference;
  const mx::array x = random_array({3, kIn}, 1);
  const mx::array logits = random_array({3, kExperts}, 2);
  const auto fast = cpu();
  const auto run = [&](const Kernels& kernels, GateActivation activation) {
    return kernels.run_experts(x, kernels.route(logits, {.top_k = 1}), mlps.load(kernels, activation));
  };
  const mx::array gelu = run(*fast, GateActivation::kGeluTanh);
  EXPECT_NE(bits_of(gelu), bits_of(run(*fast, GateActivation::kSilu)));
  const mx::array expected = run(reference, GateActivation::kGeluTanh);
  const float largest = mx::max(mx::abs(expected)).item<float>();
  expect_near(gelu, expected, 2e-5F * largest, 0.0F);
}

}  // namespace
}  // namespace redpoll::kernels
