#include "engine/sampling/logits_processors.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <span>

#include "engine/sampling/dry_penalty.h"
#include "engine/sampling/logprobs.h"

namespace redpoll::engine::sampling {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

std::vector<float> apply(std::vector<float> logits, const SamplingParams& params, const std::vector<TokenId>& tokens,
                         std::size_t num_generated = 0) {
  TokenHistory history(params, tokens.size() - num_generated);
  history.follow(tokens);
  apply_logits_processors(logits, params, history);
  return logits;
}

TEST(LogitsProcessorsTest, DefaultsChangeNothing) {
  EXPECT_FALSE(has_processors({}));
  EXPECT_THAT(apply({1, -2, 3}, {}, {0, 1, 2}, 3), ElementsAre(1, -2, 3));
}

TEST(LogitsProcessorsTest, AddsBiases) {
  SamplingParams params;
  params.logit_bias = {{0, 2.5F}, {2, -100}, {77, 1}, {-1, 1}};
  EXPECT_TRUE(has_processors(params));
  EXPECT_THAT(apply({1, -2, 3}, params, {}), ElementsAre(3.5F, -2, -97));
}

TEST(LogitsProcessorsTest, PenalizesRepetitionBySignAndOncePerToken) {
  SamplingParams params;
  params.repetition_penalty = 2;
  EXPECT_THAT(apply({4, -3, 5, 6}, params, {0, 1, 0, 0}), ElementsAre(2, -6, 5, 6));
}

TEST(LogitsProcessorsTest, PenalizesRepetitionWithinItsWindowOnly) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.repetition_context_size = 2;
  EXPECT_THAT(apply({4, 4, 4, 4}, params, {0, 1, 2}), ElementsAre(4, 2, 2, 4));
  params.repetition_context_size = 0;
  EXPECT_THAT(apply({4, 4, 4, 4}, params, {0, 1, 2}), ElementsAre(2, 2, 2, 4)) << "0 is all";
  params.repetition_context_size = 20;
  EXPECT_THAT(apply({4, 4, 4, 4}, params, {3}), ElementsAre(4, 4, 4, 2));
}

TEST(LogitsProcessorsTest, PenalizesPresenceOnceAndFrequencyByCountOverGeneratedTokens) {
  SamplingParams params;
  params.presence_penalty = 0.5F;
  params.frequency_penalty = 0.25F;
  EXPECT_TRUE(has_processors(params));
  EXPECT_THAT(apply({4, 4, 4}, params, {2, 2, 0, 0, 1}, 3), ElementsAre(3, 3.25F, 4));
}

TEST(LogitsProcessorsTest, AppliesThemInTheirOrder) {
  SamplingParams params;
  params.logit_bias = {{0, 3}};
  params.repetition_penalty = 2;
  params.presence_penalty = 1;
  EXPECT_THAT(apply({1, 1}, params, {0}, 1), ElementsAre(1, 1)) << "(1 + 3) / 2 - 1";
}

TEST(TokenHistoryTest, CountsTheLastTokensOnly) {
  std::mt19937 random(1);
  for (const int size : {0, 1, 7, 1000}) {
    SamplingParams params;
    params.repetition_penalty = 2;
    params.repetition_context_size = size;
    params.presence_penalty = 1;
    TokenHistory history(params, 10);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 300; ++i) {
      tokens.push_back(static_cast<TokenId>(random() % 20));
      if (i % 3 == 0) continue;  // it catches up
      history.follow(tokens);
      const auto window =
          std::span(tokens).last(size == 0 ? tokens.size() : std::min(static_cast<std::size_t>(size), tokens.size()));
      const auto generated = std::span(tokens).subspan(std::min<std::size_t>(10, tokens.size()));
      const auto counts_of = [](std::span<const TokenId> counted) {
        std::map<TokenId, int> counts;
        for (const TokenId token : counted) ++counts[token];
        return counts;
      };
      const auto counts_in = [](const TokenCounts& counts) {
        std::map<TokenId, int> all;
        for (const auto& [id, count] : counts.entries()) all[id] += count;
        return all;
      };
      ASSERT_EQ(counts_in(history.window()), counts_of(window));
      ASSERT_EQ(counts_in(history.generated()), counts_of(generated));
    }
  }
}

/// Seconds that writing so many tokens takes with all that penalties can look at.
double time_of_text(int num_tokens) {
  SamplingParams params;
  params.repetition_penalty = 2;
  params.repetition_context_size = 0;
  params.dry_multiplier = 1;
  params.dry_base = 1.0001F;
  params.dry_sequence_breakers = {{1, 2, 3}, {2}};
  TokenHistory history(params, 0);
  std::vector<TokenId> tokens;
  std::vector<float> logits(5, 0);
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < num_tokens; ++i) {
    tokens.push_back(3);
    history.follow(tokens);
    if (i % 10 == 0) apply_logits_processors(logits, params, history);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

// Each token of a long text is as cheap as the first: sorting or reading the text again for each of them would make ten
// times the text a hundred times as dear. The best of some runs, since others may use the machine.
TEST(TokenHistoryTest, TakesTimeInProportionToTheText) {
  double dearest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) dearest = std::min(dearest, time_of_text(100'000) / time_of_text(10'000));
  EXPECT_LT(dearest, 40);
}

TEST(LogitsProcessorsTest, MasksTokensAndIgnoresIdsOutsideTheVocabulary) {
  std::vector<float> logits{1, 2};
  mask_tokens(logits, std::vector<TokenId>{1, 2, -1});
  EXPECT_THAT(logits, ElementsAre(1, -std::numeric_limits<float>::infinity()));
}

SamplingParams dry_params() {
  SamplingParams params;
  params.dry_multiplier = 1;
  params.dry_base = 2;
  params.dry_allowed_length = 2;
  return params;
}

TEST(DryTest, PenalizesWhatWouldContinueARepetition) {
  // "1 2 3 4 9 1 2 3": the last three stand at the start, followed by 4.
  EXPECT_THAT(apply(std::vector<float>(5, 0), dry_params(), {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, -2));
}

TEST(DryTest, LeavesShortRepetitionsAlone) {
  EXPECT_THAT(apply(std::vector<float>(5, 0), dry_params(), {7, 2, 4, 9, 1, 2}), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(apply(std::vector<float>(5, 0), dry_params(), {}), ElementsAre(0, 0, 0, 0, 0));
}

TEST(DryTest, TakesTheLongestOfSeveralRepetitions) {
  // 4 follows "2 3" and, later, "1 2 3".
  EXPECT_THAT(apply(std::vector<float>(5, 0), dry_params(), {2, 3, 4, 1, 2, 3, 4, 8, 1, 2, 3}),
              ElementsAre(0, 0, 0, 0, -2));
}

TEST(DryTest, CountsOverlappingRepetitions) {
  // Five threes: the last four are also the first four.
  EXPECT_THAT(apply(std::vector<float>(5, 0), dry_params(), {3, 3, 3, 3, 3}), ElementsAre(0, 0, 0, -4, 0));
}

TEST(DryTest, DoesNotMatchAcrossABreaker) {
  SamplingParams params = dry_params();
  params.dry_sequence_breakers = {{1}};
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, -1));
  params.dry_sequence_breakers = {{3}};
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, 0));
  params.dry_sequence_breakers = {{9, 1}, {}};
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, -1))
      << "two tokens after the end of the breaker";
}

TEST(DryTest, NeverPenalizesABreaker) {
  SamplingParams params = dry_params();
  params.dry_sequence_breakers = {{4}};
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, 0));
}

/// The definition, token by token.
std::map<TokenId, int> longest_matches(const std::vector<TokenId>& tokens) {
  std::map<TokenId, int> best;
  const int n = static_cast<int>(tokens.size());
  for (int i = 1; i < n; ++i) {  // token i follows a match that ends before it
    int length = 0;
    while (length < i &&
           tokens[static_cast<std::size_t>(i - 1 - length)] == tokens[static_cast<std::size_t>(n - 1 - length)])
      ++length;
    int& longest = best[tokens[static_cast<std::size_t>(i)]];
    longest = std::max(longest, length);
  }
  return best;
}

TEST(DryTest, FindsTheLastOfManyOccurrencesOfABreaker) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<TokenId> tokens(random() % 40);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 2);
    std::vector<TokenId> breaker(1 + random() % 5);
    for (TokenId& token : breaker) token = static_cast<TokenId>(random() % 2);
    SamplingParams params = dry_params();
    params.dry_sequence_breakers = {breaker};
    const auto last = std::ranges::find_end(tokens, breaker);
    const int after = last.empty() ? 1000 : static_cast<int>(tokens.end() - last.end());
    const auto logits = apply(std::vector<float>(2, 0), params, tokens);
    const auto matches = longest_matches(tokens);
    for (TokenId id = 0; id < 2; ++id) {
      const int length = std::min(matches.contains(id) ? matches.at(id) : 0, after);
      const bool is_breaker = breaker == std::vector<TokenId>{id};
      const double want = length >= 2 && !is_breaker ? -std::min(std::pow(2.0, length - 2), 1e9) : 0;
      ASSERT_FLOAT_EQ(logits[static_cast<std::size_t>(id)], static_cast<float>(want)) << "case " << i;
    }
  }
}

// A client chooses both the text and the breakers. Compared at every place, these take 25 billion steps for one token.
TEST(DryTest, TakesTimeInProportionToTheTextWhateverTheBreakers) {
  SamplingParams params = dry_params();
  std::vector<TokenId> nearly_there(20'000, 3);
  nearly_there.front() = 4;
  params.dry_sequence_breakers.assign(64, nearly_there);
  const auto started = std::chrono::steady_clock::now();
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, std::vector<TokenId>(40'000, 3))[3], FloatEq(-1e9F));
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(3));
}

TEST(DryTest, StaysANumberHoweverLongTheRepetition) {
  const auto logits = apply(std::vector<float>(5, 0), dry_params(), std::vector<TokenId>(5000, 3));
  EXPECT_THAT(logits[3], FloatEq(-1e9F));
}

TEST(DryTest, AgreesWithItsDefinitionOnRandomTexts) {
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    const auto num_kinds = static_cast<TokenId>(1 + random() % 3);
    const SamplingParams params = dry_params();
    TokenHistory history(params, 0);
    std::vector<TokenId> tokens;
    for (int size = 1; size < 60; ++size) {
      tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(num_kinds)));
      history.follow(tokens);
      std::vector<float> logits(3, 0);
      apply_logits_processors(logits, params, history);
      const auto matches = longest_matches(tokens);
      for (TokenId id = 0; id < 3; ++id) {
        const int length = matches.contains(id) ? matches.at(id) : 0;
        const double want = length >= 2 ? -std::min(std::pow(2.0, length - 2), 1e9) : 0;
        ASSERT_FLOAT_EQ(logits[static_cast<std::size_t>(id)], static_cast<float>(want)) << i << ", " << size;
      }
    }
  }
}

TEST(DryTest, MatchesThatArePenalizedAlikeAreTakenAlike) {
  SamplingParams params = dry_params();
  params.dry_base = 1;
  params.dry_multiplier = 3;
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, -3));
  params.dry_allowed_length = std::numeric_limits<int>::max();
  EXPECT_THAT(apply(std::vector<float>(5, 0), params, {1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(0, 0, 0, 0, 0));
}

TEST(LogprobsTest, AreALogSoftmax) {
  const auto row = compute_logprobs(std::vector<float>{std::log(1.0F), std::log(3.0F), std::log(4.0F)}, 1, 0);
  EXPECT_NEAR(row.logprob, std::log(3.0 / 8), 1e-6);
  EXPECT_TRUE(row.top.empty());
}

TEST(LogprobsTest, ListTheBestFirstAndTheLowestIdOfEquals) {
  const auto row = compute_logprobs(std::vector<float>{1, 5, 2, 5, 5, 0}, 3, 4);
  ASSERT_EQ(row.top.size(), 4U);
  EXPECT_EQ(row.top[0].id, 1);
  EXPECT_EQ(row.top[1].id, 3);
  EXPECT_EQ(row.top[2].id, 4);
  EXPECT_EQ(row.top[3].id, 2);
  EXPECT_EQ(row.logprob, row.top[1].logprob);
  EXPECT_EQ(compute_logprobs(std::vector<float>{1, 2}, 0, 20).top.size(), 2U);
}

TEST(LogprobsTest, AreNeverPositiveAndStandLargeLogits) {
  EXPECT_LE(compute_logprobs(std::vector<float>{1e30F, -1e30F}, 0, 2).logprob, 0);
  const auto row = compute_logprobs(std::vector<float>(1000, 30000.0F), 0, 1);
  EXPECT_NEAR(row.logprob, -std::log(1000.0), 1e-4);
}

}  // namespace
}  // namespace redpoll::engine::sampling
