// Recurrent layers: the short convolution and the gated delta rule, against their definitions in float64, and whatever
// company and chunks a row comes in.
#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

class RecurrentTest : public CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(RecurrentTest);

/// A row of a batch: its tokens are [computed, computed + tokens) of the inputs.
struct TestRow {
  int computed = 0;
  int tokens = 0;
  int state = 0;
};

RaggedBatch batch_of(const std::vector<TestRow>& rows) {
  RaggedBatch batch;
  for (const TestRow& row : rows) {
    batch.rows.push_back({.first_token = batch.num_tokens(),
                          .num_tokens = row.tokens,
                          .num_computed = row.computed,
                          .state = row.state});
    batch.tokens.insert(batch.tokens.end(), static_cast<std::size_t>(row.tokens), 0);
  }
  return batch;
}

struct TestConvolution {
  static constexpr int kTokens = 40;
  int channels;
  ConvolutionSpec spec;
  mx::array x;

  TestConvolution(int num_channels, int size, bool has_bias, bool has_silu)
      : channels(num_channels),
        spec{.weight = random_array({size, channels}, 1), .bias = std::nullopt, .has_silu = has_silu},
        x(random_array({kTokens, channels}, 2)) {
    if (has_bias) spec.bias = random_array({channels}, 3);
  }

  [[nodiscard]] std::vector<double> exact() const {
    const std::vector<float> in = floats_of(x);
    const std::vector<float> weight = floats_of(spec.weight);
    const int size = spec.weight.shape(0);
    std::vector<double> out;
    for (int t = 0; t < kTokens; ++t) {
      for (int c = 0; c < channels; ++c) {
        double sum = spec.bias ? double{floats_of(*spec.bias)[static_cast<std::size_t>(c)]} : 0;
        for (int j = std::max(0, size - 1 - t); j < size; ++j) {
          sum += double{weight[static_cast<std::size_t>(j * channels + c)]} *
                 double{in[static_cast<std::size_t>((t - size + 1 + j) * channels + c)]};
        }
        out.push_back(spec.has_silu ? sum / (1 + std::exp(-sum)) : sum);
      }
    }
    return out;
  }

  [[nodiscard]] std::vector<std::uint32_t> run(const Kernels& kernels, int chunk) const {
    StateStorage states = storage(kernels);
    std::vector<std::uint32_t> out;
    for (int done = 0; done < kTokens; done += chunk) {
      const int count = std::min(chunk, kTokens - done);
      const auto bits = bits_of(
          kernels.short_convolution(rows_of(x, done, done + count), spec, states, batch_of({{done, count, 1}})));
      out.insert(out.end(), bits.begin(), bits.end());
    }
    return out;
  }
  /// Whose states others have used before.
  [[nodiscard]] StateStorage storage(const Kernels& kernels) const {
    StateStorage states = kernels.make_state_storage(
        {.num_states = 3, .conv_tokens = spec.weight.shape(0) - 1, .conv_channels = channels});
    const mx::array junk = random_array({5, channels}, 9);
    for (int state = 0; state < 3; ++state) {
      mx::eval(kernels.short_convolution(junk, spec, states, batch_of({{0, 5, state}})));
    }
    return states;
  }
};

void expect_near(const std::vector<std::uint32_t>& got, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(std::bit_cast<float>(got[i]), expected[i], bound) << "element " << i;
  }
}

TEST_P(RecurrentTest, ConvolvesTheLastTokensOfARow) {
  const ReferenceKernels reference;
  for (const int channels : {5, 16, 37, 96}) {
    for (const int size : {2, 3, 4}) {
      const TestConvolution test(channels, size, channels == 37, size == 4);
      const std::vector<double> exact = test.exact();
      ASSERT_NO_FATAL_FAILURE(expect_near(test.run(reference, 7), exact, 2e-5)) << channels << ' ' << size;
      const auto whole = test.run(*cpu(1), TestConvolution::kTokens);
      ASSERT_NO_FATAL_FAILURE(expect_near(whole, exact, 2e-5)) << channels << ' ' << size;
      for (const int chunk : {1, 2, 3, 7, 39}) ASSERT_EQ(test.run(*cpu(2), chunk), whole) << "chunks of " << chunk;
    }
  }
}

struct TestDelta {
  static constexpr int kTokens = 30;
  DeltaSpec spec;
  mx::array qkv, a, b;

  TestDelta(int key_heads, int value_heads, int key_dim, int value_dim)
      : spec{.num_key_heads = key_heads,
             .num_value_heads = value_heads,
             .key_dim = key_dim,
             .value_dim = value_dim,
             .a_log = random_array({value_heads}, 1),
             .dt_bias = random_array({value_heads}, 2)},
        qkv(random_array({kTokens, 2 * key_heads * key_dim + value_heads * value_dim}, 3)),
        a(random_array({kTokens, value_heads}, 4)),
        b(random_array({kTokens, value_heads}, 5)) {}

  [[nodiscard]] std::vector<double> exact() const;

  [[nodiscard]] mx::array step(const Kernels& kernels, int first, int last, StateStorage& states,
                               const RaggedBatch& batch) const {
    const mx::array own = rows_of(qkv, first, last);
    return kernels.gated_delta({.qkv = own, .a = rows_of(a, first, last), .b = rows_of(b, first, last)}, spec, states,
                               batch);
  }
  [[nodiscard]] std::vector<std::uint32_t> run(const Kernels& kernels, int chunk) const {
    StateStorage states = storage(kernels);
    std::vector<std::uint32_t> out;
    for (int done = 0; done < kTokens; done += chunk) {
      const int count = std::min(chunk, kTokens - done);
      const auto bits = bits_of(step(kernels, done, done + count, states, batch_of({{done, count, 1}})));
      out.insert(out.end(), bits.begin(), bits.end());
    }
    return out;
  }
  [[nodiscard]] StateStorage storage(const Kernels& kernels) const {
    StateStorage states = kernels.make_state_storage({.num_states = 3,
                                                      .conv_tokens = 1,
                                                      .conv_channels = 1,
                                                      .num_heads = spec.num_value_heads,
                                                      .key_dim = spec.key_dim,
                                                      .value_dim = spec.value_dim});
    for (int state = 0; state < 3; ++state) mx::eval(step(kernels, 3, 8, states, batch_of({{0, 5, state}})));
    return states;
  }
};

/// One head's inputs, as the rule has them.
struct ExactToken {
  std::vector<double> q, k, v;
  double decay = 0;
  double beta = 0;
};

/// What one token reads from a memory (key_dim, value_dim), and leaves in it.
std::vector<double> exact_step(const ExactToken& token, std::vector<std::vector<double>>& memory) {
  std::vector<double> out(token.v.size());
  for (std::size_t c = 0; c < out.size(); ++c) {
    double held = 0;
    for (std::size_t i = 0; i < token.k.size(); ++i) held += (memory[i][c] *= token.decay) * token.k[i];
    for (std::size_t i = 0; i < token.k.size(); ++i) {
      memory[i][c] += token.k[i] * token.beta * (token.v[c] - held);
      out[c] += memory[i][c] * token.q[i];
    }
  }
  return out;
}

std::vector<double> TestDelta::exact() const {
  const auto size = [](int number) { return static_cast<std::size_t>(number); };
  const std::vector<float> in = floats_of(qkv);
  const std::size_t heads = size(spec.num_value_heads);
  const std::size_t row = in.size() / kTokens;
  const auto part = [&](std::size_t first, int count) {
    const auto begin = in.begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector<double>(begin, begin + count);
  };
  const auto normalized = [](std::vector<double> x, double scale) {
    double squares = 1e-6;
    for (const double value : x) squares += value * value;
    for (double& value : x) value *= scale / std::sqrt(squares);
    return x;
  };
  const auto token_of = [&](std::size_t t, std::size_t head) {
    const std::size_t key_head = head / (heads / size(spec.num_key_heads));
    const std::size_t q = t * row + key_head * size(spec.key_dim);
    const std::size_t keys = size(spec.num_key_heads * spec.key_dim);
    const double gate = double{floats_of(a)[t * heads + head]} + double{floats_of(spec.dt_bias)[head]};
    return ExactToken{.q = normalized(part(q, spec.key_dim), 1 / std::sqrt(spec.key_dim)),
                      .k = normalized(part(q + keys, spec.key_dim), 1),
                      .v = part(t * row + 2 * keys + head * size(spec.value_dim), spec.value_dim),
                      .decay = std::exp(-std::exp(double{floats_of(spec.a_log)[head]}) * std::log1p(std::exp(gate))),
                      .beta = 1 / (1 + std::exp(-double{floats_of(b)[t * heads + head]}))};
  };
  std::vector<double> out(kTokens * heads * size(spec.value_dim));
  for (std::size_t head = 0; head < heads; ++head) {
    std::vector<std::vector<double>> memory(size(spec.key_dim), std::vector<double>(size(spec.value_dim)));
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::vector<double> y = exact_step(token_of(t, head), memory);
      std::ranges::copy(y, out.begin() + static_cast<std::ptrdiff_t>((t * heads + head) * y.size()));
    }
  }
  return out;
}

TEST_P(RecurrentTest, FollowsTheGatedDeltaRule) {
  const ReferenceKernels reference;
  for (const auto& [key_heads, value_heads, key_dim, value_dim] :
       {std::tuple(1, 1, 8, 5), std::tuple(2, 4, 16, 24), std::tuple(2, 2, 24, 130)}) {
    const TestDelta test(key_heads, value_heads, key_dim, value_dim);
    const std::vector<double> exact = test.exact();
    ASSERT_NO_FATAL_FAILURE(expect_near(test.run(reference, 11), exact, 2e-6)) << "value_dim " << value_dim;
    const auto whole = test.run(*cpu(1), TestDelta::kTokens);
    ASSERT_NO_FATAL_FAILURE(expect_near(whole, exact, 2e-6)) << "value_dim " << value_dim;
    for (const int chunk : {1, 2, 7, 29}) ASSERT_EQ(test.run(*cpu(3), chunk), whole) << "chunks of " << chunk;
  }
}

TEST_P(RecurrentTest, RowsOfABatchHaveStatesOfTheirOwn) {
  const TestDelta test(2, 4, 16, 24);
  const auto kernels = cpu(2);
  StateStorage states = test.storage(*kernels);
  const auto whole = test.run(*kernels, TestDelta::kTokens);
  const std::size_t token = whole.size() / TestDelta::kTokens;
  const auto tokens = [&](std::size_t first, std::size_t last) {
    return std::vector<std::uint32_t>(whole.begin() + static_cast<std::ptrdiff_t>(first * token),
                                      whole.begin() + static_cast<std::ptrdiff_t>(last * token));
  };
  // The same sequence in two rows: one is at 10 when the other begins, and both go on together.
  EXPECT_EQ(bits_of(test.step(*kernels, 0, 10, states, batch_of({{0, 10, 2}}))), tokens(0, 10));
  kernels->copy_block(states.pools(), 2, 0);
  const auto both = [&](const mx::array& x) { return mx::concatenate({rows_of(x, 10, 14), rows_of(x, 10, 12)}, 0); };
  const mx::array qkv = both(test.qkv);
  const auto got = bits_of(kernels->gated_delta({.qkv = qkv, .a = both(test.a), .b = both(test.b)}, test.spec, states,
                                                batch_of({{10, 4, 2}, {10, 2, 0}})));
  auto wanted = tokens(10, 14);
  const auto second = tokens(10, 12);
  wanted.insert(wanted.end(), second.begin(), second.end());
  EXPECT_EQ(got, wanted);
}

TEST(ReferenceRecurrentTest, CopiesAMemory) {
  const TestDelta test(2, 4, 16, 24);
  const ReferenceKernels reference;
  StateStorage states = test.storage(reference);
  mx::eval(test.step(reference, 0, 10, states, batch_of({{0, 10, 2}})));
  reference.copy_block(states.pools(), 2, 0);
  const auto next = [&](int state) {
    return bits_of(test.step(reference, 10, 14, states, batch_of({{10, 4, state}})));
  };
  EXPECT_EQ(next(0), next(2));
}

TEST_P(RecurrentTest, CopiesTheInputsOfAConvolution) {
  const TestConvolution test(16, 4, false, false);
  for (const auto& kernels : {cpu(1), std::unique_ptr<Kernels>(std::make_unique<ReferenceKernels>())}) {
    StateStorage states = test.storage(*kernels);
    mx::eval(kernels->short_convolution(rows_of(test.x, 0, 9), test.spec, states, batch_of({{0, 9, 0}})));
    kernels->copy_block(states.pools(), 0, 2);
    const auto next = [&](int state) {
      return bits_of(kernels->short_convolution(rows_of(test.x, 9, 10), test.spec, states, batch_of({{9, 1, state}})));
    };
    EXPECT_EQ(next(2), next(0)) << kernels->name();
  }
}

TEST_P(RecurrentTest, GatesRowsByASigmoid) {
  const mx::array x = random_array({3, 20}, 1);
  const mx::array logits({-1.0F, 0.0F, 100.0F}, {3, 1});
  const ReferenceKernels reference;
  redpoll::kernels::expect_near(cpu()->gate_rows(x, logits), reference.gate_rows(x, logits), 1e-6F, 0.0F);
}

}  // namespace
}  // namespace redpoll::kernels
