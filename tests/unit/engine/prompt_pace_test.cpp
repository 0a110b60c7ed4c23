#include "engine/stats/prompt_pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace redpoll::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StepRecord step(milliseconds took, int prompt_tokens, int generated_tokens = 0) {
  const Clock::TimePoint start{seconds(5)};
  return {.started_at = start,
          .ended_at = start + took,
          .prompt_tokens = prompt_tokens,
          .generated_tokens = generated_tokens};
}

TEST(PromptPaceTest, IsPatientBeforeAnythingIsMeasured) {
  EXPECT_EQ(PromptPace().time_for(250), seconds(1));
  EXPECT_EQ(PromptPace().time_for(0), seconds(0));
}

TEST(PromptPaceTest, IsThatOfAllRowsOfTheSteps) {
  PromptPace pace;
  pace.add(step(milliseconds(300), 256, 4));
  pace.add(step(milliseconds(90), 128, 2));  // 390 tokens in 390 ms
  EXPECT_EQ(pace.time_for(1'000), seconds(1));
}

TEST(PromptPaceTest, StepsOfAFewTokensOfPromptsSayNothing) {
  PromptPace pace;
  pace.add(step(milliseconds(500), 31, 8));
  EXPECT_EQ(pace.time_for(250), seconds(1));
  pace.add(step(milliseconds(16), 32));
  pace.add(step(milliseconds(500), 0, 100));
  EXPECT_EQ(pace.time_for(2'000), seconds(1));
}

TEST(PromptPaceTest, AClockThatStandsStillMeasuresNothing) {
  PromptPace pace;
  pace.add(step(milliseconds(0), 256));
  EXPECT_EQ(pace.time_for(250), seconds(1));
}

TEST(PromptPaceTest, WhatWasLongAgoIsForgotten) {
  PromptPace pace;
  for (int i = 0; i < 16; ++i) pace.add(step(seconds(10), 256));         // 25.6 a second
  for (int i = 0; i < 160; ++i) pace.add(step(milliseconds(100), 256));  // 2,560
  EXPECT_LT(pace.time_for(2'560), milliseconds(1'100));
  EXPECT_GE(pace.time_for(2'560), milliseconds(1'000));
}

}  // namespace
}  // namespace redpoll::engine
