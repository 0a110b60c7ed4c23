// The sampler against a plain one that sorts everything, its distribution, and its promises about seeds and bad logits.
#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "unit/engine/sampler_oracle.h"

namespace redpoll::engine::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// For parameters that do not look at what has been written.
TokenHistory& no_history() {
  static const SamplingParams params;
  static TokenHistory history(params, 0);
  return history;
}

Result<TokenId> sample(const std::vector<float>& logits, const SamplingParams& params, const DrawKey& key = {},
                       std::span<const TokenId> stop_ids = {}, bool may_stop = true) {
  Sampler sampler;
  return sampler.sample(
      logits, {.params = params, .history = no_history(), .key = key, .stop_ids = stop_ids, .may_stop = may_stop});
}

/// Every token that `draws` positions give.
std::set<TokenId> reachable(const std::vector<float>& logits, const SamplingParams& params,
                            std::span<const TokenId> stop_ids = {}, int draws = 2000) {
  std::set<TokenId> tokens;
  Sampler sampler;
  for (int position = 0; position < draws; ++position) {
    const auto token = sampler.sample(logits, {.params = params,
                                               .history = no_history(),
                                               .key = {.seed = 5, .choice = 0, .position = position},
                                               .stop_ids = stop_ids});
    tokens.insert(*token);
  }
  return tokens;
}

/// Logits whose softmax is in proportion to these.
std::vector<float> logits_of(std::initializer_list<double> weights) {
  std::vector<float> logits;
  for (const double weight : weights) logits.push_back(static_cast<float>(std::log(weight)));
  return logits;
}

SamplingParams at_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

TEST(SamplerTest, GreedyTakesTheLikeliestAndTheLowestIdOfEquals) {
  EXPECT_EQ(*sample({1, 3, 3, 2}, at_temperature(0)), 1);
  EXPECT_EQ(*sample({-1, -3, -0.5F}, at_temperature(0)), 2);
}

TEST(SamplerTest, RefusesLogitsThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const float temperature : {0.0F, 0.7F}) {
      const auto got = sample({1, bad, 2}, at_temperature(temperature));
      ASSERT_FALSE(got);
      EXPECT_EQ(got.error().code, ErrorCode::kInternal);
      EXPECT_EQ(got.error().message, "the model computed logits that are not finite numbers for this request");
    }
  }
}

/// Vocabularies of whole and of broken blocks and vectors.
TEST(SamplerTest, LooksAtEveryLogit) {
  for (const std::size_t size : {1U, 15U, 17U, 1040U}) {
    std::vector<float> logits(size, -2);
    for (std::size_t i = 0; i < size; ++i) {
      logits[i] = -1;
      ASSERT_EQ(*sample(logits, at_temperature(0)), static_cast<TokenId>(i)) << size;
      if (i > 0) {
        logits[i - 1] = -1;  // an equal before it
        ASSERT_EQ(*sample(logits, at_temperature(0)), static_cast<TokenId>(i - 1)) << size;
        logits[i - 1] = -2;
      }
      logits[i] = kInfinity;
      ASSERT_FALSE(sample(logits, at_temperature(0))) << i << " of " << size;
      logits[i] = -2;
    }
  }
}

TEST(SamplerTest, SaysSoWhenEveryTokenIsRuledOut) {
  const std::vector<TokenId> all{0, 1};
  for (const float temperature : {0.0F, 0.7F}) {
    const auto got = sample({1, 2}, at_temperature(temperature), {}, all, /*may_stop=*/false);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(got.error().message, "logit_bias and min_tokens rule out every token of the vocabulary");
  }
}

TEST(SamplerTest, RulesStopIdsOutUntilItMayStop) {
  const std::vector<TokenId> stop{2};
  EXPECT_EQ(*sample({1, 2, 9}, at_temperature(0), {}, stop, true), 2);
  EXPECT_EQ(*sample({1, 2, 9}, at_temperature(0), {}, stop, false), 1);
}

TEST(SamplerTest, TopPKeepsTheTokenThatReachesItAndItsEquals) {
  SamplingParams params = at_temperature(1);
  params.top_p = 0.5F;
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params), (std::set<TokenId>{0, 1}));
  params.top_p = 0.3F;
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params), (std::set<TokenId>{0}));
  params.top_p = 0.6F;
  EXPECT_EQ(reachable(logits_of({3, 3, 3, 1}), params), (std::set<TokenId>{0, 1, 2})) << "ties stay together";
  params.top_p = 1e-6F;
  EXPECT_EQ(reachable(logits_of({1, 5}), params), (std::set<TokenId>{1}));
}

TEST(SamplerTest, MinPKeepsWhatIsLikelyEnoughBesideTheLikeliest) {
  SamplingParams params = at_temperature(2);
  params.min_p = 0.45F;
  EXPECT_EQ(reachable(logits_of({4, 2, 1.7, 0.1}), params), (std::set<TokenId>{0, 1}));
  params.min_p = 1;
  EXPECT_EQ(reachable(logits_of({4, 2, 4, 1}), params), (std::set<TokenId>{0, 2}));
}

TEST(SamplerTest, TypicalPPrefersTheExpectedSurprise) {
  // Entropy of (0.7, 0.1, 0.1, 0.1) is 0.94 nats: 0.7 surprises by 0.36, the others by 2.3.
  SamplingParams params = at_temperature(1);
  params.typical_p = 0.5F;
  EXPECT_EQ(reachable(logits_of({7, 1, 1, 1}), params), (std::set<TokenId>{0}));
  // Entropy of (0.4, 0.2, 0.1 x 4) is 1.61 nats, just the surprise of 0.2; next comes 0.1, then 0.4.
  params.typical_p = 0.15F;
  EXPECT_EQ(reachable(logits_of({4, 2, 1, 1, 1, 1}), params), (std::set<TokenId>{1}));
  params.typical_p = 0.3F;
  EXPECT_EQ(reachable(logits_of({4, 2, 1, 1, 1, 1}), params).size(), 2U);
}

TEST(SamplerTest, XtcLeavesOnlyTheLeastOfTheTopChoices) {
  SamplingParams params = at_temperature(1);
  params.xtc_probability = 1;
  params.xtc_threshold = 0.15F;
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params), (std::set<TokenId>{2, 3}));
  params.xtc_threshold = 0.35F;
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params), (std::set<TokenId>{0, 1, 2, 3})) << "one alone stays";
  params.xtc_threshold = 0.5F;
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params), (std::set<TokenId>{0, 1, 2, 3}));
}

TEST(SamplerTest, XtcNeverRemovesStopIdsOrSpecialTokens) {
  SamplingParams params = at_temperature(1);
  params.xtc_probability = 1;
  params.xtc_threshold = 0.15F;
  params.xtc_special_tokens = {1};
  const std::vector<TokenId> stop{0};
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params, stop), (std::set<TokenId>{0, 1, 2, 3}));
  params.xtc_special_tokens = {};
  EXPECT_EQ(reachable(logits_of({4, 3, 2, 1}), params, stop), (std::set<TokenId>{0, 2, 3}));
}

TEST(SamplerTest, XtcAppliesAsOftenAsItsProbabilitySays) {
  SamplingParams params = at_temperature(1);
  params.xtc_threshold = 0.1F;
  params.xtc_probability = 0.25F;
  Sampler sampler;
  int num_firsts = 0;  // the first token is out whenever XTC applies, and almost certain when not
  for (int position = 0; position < 4000; ++position) {
    const auto token =
        sampler.sample(logits_of({1000, 130, 1e-9}), {.params = params,
                                                      .history = no_history(),
                                                      .key = {.seed = 3, .choice = 0, .position = position},
                                                      .stop_ids = {}});
    num_firsts += *token == 0 ? 1 : 0;
  }
  EXPECT_NEAR(num_firsts / 4000.0, 0.75 * 1000 / 1130, 0.03);
}

TEST(SamplerTest, TopKKeepsThatManyAndTheLowestIdsOfEquals) {
  SamplingParams params = at_temperature(1);
  params.top_k = 2;
  EXPECT_EQ(reachable(logits_of({1, 4, 3, 2}), params), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(reachable(logits_of({1, 1, 1, 1}), params), (std::set<TokenId>{0, 1}));
  params.top_k = 100;
  EXPECT_EQ(reachable(logits_of({1, 1, 1, 1}), params).size(), 4U);
  params.top_k = -1;
  EXPECT_EQ(reachable(logits_of({1, 1, 1, 1}), params).size(), 4U);
}

/// Logits of several shapes: like a model's, flat, with many ties.
std::vector<float> random_logits(std::mt19937& random) {
  const std::size_t vocab_size = std::array{5U, 50U, 1000U, 5000U}[random() % 4];
  std::vector<float> logits(vocab_size);
  std::normal_distribution<float> normal(0, std::array{0.01F, 1.0F, 4.0F}[random() % 3]);
  const bool has_ties = random() % 3 == 0;
  for (float& logit : logits) logit = has_ties ? std::round(normal(random) * 2) / 2 : normal(random);
  return logits;
}

SamplingParams random_params(std::mt19937& random) {
  const auto chance = [&] { return random() % 2 == 0; };
  std::uniform_real_distribution<float> uniform(0, 1);
  SamplingParams params = at_temperature(std::array{0.05F, 0.7F, 1.0F, 2.0F}[random() % 4]);
  if (chance()) params.top_p = std::max(uniform(random), 1e-6F);
  if (chance()) params.min_p = uniform(random) * 0.3F;
  if (random() % 4 == 0) params.typical_p = std::max(uniform(random), 1e-6F);
  if (chance()) params.top_k = static_cast<int>(1 + random() % 40);
  if (chance()) params.xtc_probability = uniform(random);
  params.xtc_threshold = uniform(random) * 0.2F;
  params.xtc_special_tokens = {1};
  return params;
}

TEST(SamplerTest, AgreesWithASamplerThatSortsEverything) {
  std::mt19937 random(11);
  const std::vector<TokenId> stop{0};
  Sampler sampler;
  int num_tokens = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto logits = random_logits(random);
    const auto params = random_params(random);
    const DrawKey key{.seed = random(), .choice = static_cast<int>(random() % 3), .position = i};
    const bool xtc_applies =
        params.xtc_probability > 0 && uniform_draw(key, DrawPurpose::kXtc) < params.xtc_probability;
    const auto left = test::oracle_filter(logits, params, xtc_applies, {0, 1});
    const TokenId want = test::oracle_draw(left, params.temperature, uniform_draw(key, DrawPurpose::kToken));
    const auto got = sampler.sample(logits, {.params = params, .history = no_history(), .key = key, .stop_ids = stop});
    ASSERT_TRUE(got);
    ASSERT_EQ(*got, want) << "case " << i << ", " << logits.size() << " tokens, " << left.size() << " left";
    num_tokens += left.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(num_tokens, 2000) << "too many cases had no choice";
}

TEST(SamplerTest, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  const auto logits = logits_of({8, 4, 2, 1, 1, 0.5, 0.5, 0.25});
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    std::vector<double> expected;
    for (const float logit : logits) expected.push_back(std::exp(logit / temperature));
    const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
    constexpr int kDraws = 20'000;
    std::vector<int> counts(logits.size(), 0);
    Sampler sampler;
    const SamplingParams params = at_temperature(temperature);
    for (int position = 0; position < kDraws; ++position) {
      ++counts[static_cast<std::size_t>(*sampler.sample(logits, {.params = params,
                                                                 .history = no_history(),
                                                                 .key = {.seed = 42, .choice = 0, .position = position},
                                                                 .stop_ids = {}}))];
    }
    double chi_square = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double want = expected[i] / total * kDraws;
      chi_square += (counts[i] - want) * (counts[i] - want) / want;
    }
    EXPECT_LT(chi_square, 24.3) << "7 degrees of freedom, one in a thousand is above";
  }
}

TEST(SamplerTest, ADrawDependsOnSeedChoiceAndPositionOnly) {
  const std::vector<float> logits(1000, 0.0F);
  const SamplingParams params = at_temperature(1);
  const auto draw = [&](std::uint64_t seed, int choice, int position) {
    return *sample(logits, params, {.seed = seed, .choice = choice, .position = position});
  };
  const TokenId first = draw(1, 0, 7);
  Sampler used;  // by other requests in between
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    (void)used.sample(random_logits(random), {.params = params, .history = no_history(), .key = {}, .stop_ids = {}});
  }
  EXPECT_EQ(
      *used.sample(
          logits,
          {.params = params, .history = no_history(), .key = {.seed = 1, .choice = 0, .position = 7}, .stop_ids = {}}),
      first);
  int num_equal = 0;
  for (int i = 0; i < 300; ++i) {
    num_equal += draw(2, 0, i) == draw(1, 0, i) ? 1 : 0;
    num_equal += draw(1, 1, i) == draw(1, 0, i) ? 1 : 0;
    num_equal += draw(1, 0, i) == draw(1, 0, i + 1) ? 1 : 0;
  }
  EXPECT_LT(num_equal, 10) << "one in a thousand by chance";
}

TEST(RandomTest, DrawsAreUniformAndTheTwoPurposesIndependent) {
  std::array<int, 16> counts{};
  for (int position = 0; position < 32'000; ++position) {
    const DrawKey key{.seed = 9, .choice = 0, .position = position};
    const double token = uniform_draw(key, DrawPurpose::kToken);
    const double xtc = uniform_draw(key, DrawPurpose::kXtc);
    ASSERT_GE(token, 0);
    ASSERT_LT(token, 1);
    ++counts[static_cast<std::size_t>(token * 4) * 4 + static_cast<std::size_t>(xtc * 4)];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 2000.0) * (count - 2000.0) / 2000;
  EXPECT_LT(chi_square, 37.7) << "15 degrees of freedom, one in a thousand is above";
}

}  // namespace
}  // namespace redpoll::engine::sampling
