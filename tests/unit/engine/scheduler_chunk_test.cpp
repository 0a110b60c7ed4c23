// The scheduler where prompts come in whole chunks, as the exact tier wants them.
#include "unit/engine/scheduler_fixture.h"

namespace redpoll::engine {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST_F(SchedulerTest, WholeChunksComeWithTheLastTokenOnItsOwn) {
  make({.max_batch = 2, .step_tokens = 10, .prompt_chunk = 4}, 100);
  Sequence* a = add({.prompt_tokens = 10, .max_tokens = 2});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  Sequence* b = add({.prompt_tokens = 1});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
}

TEST_F(SchedulerTest, AWholeChunkWaitsForAStepThatHasRoomForIt) {
  make({.max_batch = 4, .step_tokens = 12, .prompt_chunk = 4}, 100);
  Sequence* a = add({.prompt_tokens = 9});
  Sequence* b = add({.prompt_tokens = 9});
  Sequence* c = add({.prompt_tokens = 9});
  Sequence* d = add({.prompt_tokens = 3});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4), Pair(b, 4), Pair(c, 4)));
  EXPECT_THAT(step(), UnorderedElementsAre(Pair(a, 4), Pair(b, 4), Pair(d, 2)));
}

TEST_F(SchedulerTest, WhatWasGeneratedIsComputedAgainTokenByToken) {
  make({.max_batch = 1, .step_tokens = 9, .prompt_chunk = 4}, 100);
  Sequence* a = add({.prompt_tokens = 3, .max_tokens = 9});
  for (int i = 0; i < 4; ++i) (void)step();  // two tokens of the prompt, its last, and two that were generated
  scheduler_->restart_all();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 2)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
}

}  // namespace
}  // namespace redpoll::engine
