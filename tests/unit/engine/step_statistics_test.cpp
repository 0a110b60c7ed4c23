#include "engine/stats/step_statistics.h"

#include <gmock/gmock.h>

#include "support/fake_clock.h"

namespace redpoll::engine {
namespace {

using namespace std::chrono_literals;

StepRecord record(const Clock& clock, std::chrono::milliseconds took, int prompt_tokens, int generated_tokens) {
  return {.started_at = clock.now() - took,
          .ended_at = clock.now(),
          .prompt_tokens = prompt_tokens,
          .generated_tokens = generated_tokens};
}

TEST(StepStatisticsTest, IsZeroWithoutSteps) {
  const test::FakeClock clock;
  const StepRates rates = StepStatistics().rates(clock.now());
  EXPECT_EQ(rates.step_ms_p50, 0);
  EXPECT_EQ(rates.tokens_per_s, 0);
  EXPECT_EQ(rates.prefill_tokens_per_s, 0);
}

TEST(StepStatisticsTest, CountsFromTheStartOfTheFirstStep) {
  test::FakeClock clock;
  StepStatistics statistics;
  for (const auto took : {100ms, 300ms, 100ms}) {
    clock.advance(took);
    statistics.add(record(clock, took, 50, 2));
  }
  const StepRates rates = statistics.rates(clock.now());
  EXPECT_DOUBLE_EQ(rates.step_ms_p50, 100);
  EXPECT_DOUBLE_EQ(rates.tokens_per_s, 12);
  EXPECT_DOUBLE_EQ(rates.prefill_tokens_per_s, 300);
}

TEST(StepStatisticsTest, FallsOffWhileIdleAndForgetsAfterTenSeconds) {
  test::FakeClock clock;
  StepStatistics statistics;
  clock.advance(100ms);
  statistics.add(record(clock, 100ms, 0, 10));
  clock.advance(900ms);
  EXPECT_DOUBLE_EQ(statistics.rates(clock.now()).tokens_per_s, 10);
  clock.advance(10s);
  EXPECT_EQ(statistics.rates(clock.now()).tokens_per_s, 0);
  statistics.add(record(clock, 200ms, 0, 10));
  EXPECT_DOUBLE_EQ(statistics.rates(clock.now()).step_ms_p50, 200);
}

TEST(StepStatisticsTest, RemembersABoundedNumberOfSteps) {
  test::FakeClock clock;
  StepStatistics statistics;
  statistics.add(record(clock, 1ms, 0, 1'000'000));
  for (int i = 0; i < 5000; ++i) {
    clock.advance(1ms);
    statistics.add(record(clock, 1ms, 0, 1));
  }
  EXPECT_NEAR(statistics.rates(clock.now()).tokens_per_s, 1000, 1) << "the first steps are forgotten";
}

}  // namespace
}  // namespace redpoll::engine
