// The scheduler on its own: each of its rules.
#include "unit/engine/scheduler_fixture.h"

namespace redpoll::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST_F(SchedulerTest, HasNothingToDoWithoutSequences) {
  make({.max_batch = 2, .step_tokens = 8}, 10);
  EXPECT_THAT(step(), IsEmpty());
}

TEST_F(SchedulerTest, CutsALongPromptIntoChunks) {
  make({.max_batch = 2, .step_tokens = 8}, 10);
  Sequence* a = add({.prompt_tokens = 20});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
}

TEST_F(SchedulerTest, ALongPromptDoesNotHoldUpThoseWhoGenerate) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 2});
  Sequence* b = add({.prompt_tokens = 3});
  (void)step();
  Sequence* c = add({.prompt_tokens = 50});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 6)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 6)));
}

TEST_F(SchedulerTest, AnOldLongPromptStillLeavesYoungerOnesTheirToken) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 50});
  a->active->stalled = true;
  Sequence* b = add({.prompt_tokens = 1});
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
  a->active->stalled = false;
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(a, 7)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 7), Pair(b, 1)));
}

TEST_F(SchedulerTest, AShortPromptIsNotHeldUpByALongOne) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 50});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  Sequence* b = add({.prompt_tokens = 3});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 5), Pair(b, 3)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 7), Pair(b, 1)));
}

TEST_F(SchedulerTest, AStartedShortPromptComesBeforeAnOlderLongOne) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 50});
  (void)step();
  Sequence* b = add({.prompt_tokens = 10});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4), Pair(b, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4), Pair(b, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 6), Pair(b, 2)));
}

TEST_F(SchedulerTest, ALongPromptMovesOnHoweverManyShortOnesCome) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 60});
  (void)step();
  for (int i = 0; i < 8; ++i) {
    (void)add({.prompt_tokens = 8, .max_tokens = 1});
    const int before = a->num_computed();
    (void)step();
    EXPECT_GE(a->num_computed(), before + 4) << "step " << i;
  }
}

TEST_F(SchedulerTest, PromptsOfOneLengthComeOneAfterTheOther) {
  make({.max_batch = 4, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 20});
  Sequence* b = add({.prompt_tokens = 20});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4), Pair(b, 4)));
}

TEST_F(SchedulerTest, WhatAWaitingPromptCannotUseGoesToTheOthers) {
  make({.max_batch = 4, .step_tokens = 8}, 13);
  Sequence* a = add({.prompt_tokens = 46});  // needs twelve blocks
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  (void)add({.prompt_tokens = 7});  // two, of which there is one
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
}

TEST_F(SchedulerTest, RunsNoMoreSequencesThanABatchHolds) {
  make({.max_batch = 2, .step_tokens = 100}, 100);
  Sequence* a = add({.max_tokens = 2});
  Sequence* b = add({.max_tokens = 3});
  Sequence* c = add({.max_tokens = 3});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(c, 1)));
}

TEST_F(SchedulerTest, StartsByPriorityThenByAge) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  Sequence* a = add({.max_tokens = 1});
  Sequence* b = add({.max_tokens = 1, .priority = 1});
  Sequence* c = add({.max_tokens = 1, .priority = 1});
  Sequence* d = add({.max_tokens = 1, .priority = -1});
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(c, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(d, 1)));
}

TEST_F(SchedulerTest, DoesNotStartWhatWouldNotFitBesideTheOthers) {
  make({.max_batch = 4, .step_tokens = 4}, 6);
  Sequence* a = add({.prompt_tokens = 15});                  // will need four blocks, has one after the first step
  Sequence* b = add({.prompt_tokens = 8, .max_tokens = 1});  // needs three
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_EQ(b->state, SequenceState::kWaiting);
  EXPECT_EQ(b->cache.num_held(), 0);
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
}

TEST_F(SchedulerTest, WaitsForABlockThatOnlyOlderOnesHold) {
  make({.max_batch = 4, .step_tokens = 100}, 3);
  Sequence* a = add({.prompt_tokens = 3, .max_tokens = 5});
  Sequence* b = add({.prompt_tokens = 3, .max_tokens = 5});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 3), Pair(b, 3)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  // Both need a second block now and there is one.
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(b->state, SequenceState::kRunning) << "waits with its block until it gets another";
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));  // a's last
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
}

TEST_F(SchedulerTest, AnOlderSequenceTakesAYoungersBlocks) {
  make({.max_batch = 4, .step_tokens = 100}, 2);
  Sequence* a = add({.prompt_tokens = 3, .max_tokens = 5});
  Sequence* b = add({.prompt_tokens = 3, .max_tokens = 5});
  (void)step();
  (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(b->state, SequenceState::kWaiting);
  EXPECT_EQ(b->num_computed(), 0);
  EXPECT_EQ(b->num_generated(), 2) << "what it has written is kept";
  EXPECT_EQ(scheduler_->num_preemptions(), 1U);
  (void)step();
  (void)step();  // a ends
  EXPECT_THAT(step(), ElementsAre(Pair(b, 5)));
}

TEST_F(SchedulerTest, TheYoungestLosesItsBlocksFirst) {
  make({.max_batch = 4, .step_tokens = 100}, 3);
  Sequence* a = add({.prompt_tokens = 3});
  Sequence* b = add({.prompt_tokens = 3});
  Sequence* c = add({.prompt_tokens = 3});
  (void)step();
  (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(c->state, SequenceState::kWaiting);
  EXPECT_EQ(b->state, SequenceState::kRunning);
}

TEST_F(SchedulerTest, AStalledSequenceStallsOnlyItself) {
  make({.max_batch = 1, .step_tokens = 100}, 4);
  Sequence* a = add({.prompt_tokens = 12});
  (void)step();
  a->active->stalled = true;
  EXPECT_THAT(step(), IsEmpty());
  EXPECT_EQ(a->cache.num_held(), 3) << "nobody needs them";
  Sequence* b = add({.prompt_tokens = 8, .max_tokens = 2});
  EXPECT_THAT(step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(a->cache.num_held(), 0);
  a->active->stalled = false;
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 13)));
}

TEST_F(SchedulerTest, ScoresAPromptInSmallSteps) {
  make({.max_batch = 2, .step_tokens = 500}, 100);
  Sequence* a = add({.prompt_tokens = 150, .prompt_logprobs = true});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 64)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 64)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 22)));
}

TEST_F(SchedulerTest, ChoicesShareAPromptThatIsComputedOnce) {
  make({.max_batch = 3, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 14, .num_choices = 3});
  Sequence* b = sequence(1);
  Sequence* c = sequence(2);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 5)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 1))) << "the last token of the prompt";
  EXPECT_EQ(pools_->num_used(), 3 + 3) << "three whole blocks together, one of each one's own";
  EXPECT_EQ(pools_->pool(0).num_users(a->cache.table(0)[2]), 3);
  EXPECT_EQ(b->num_generated(), 1);
}

TEST_F(SchedulerTest, CopiesTheBlockThatAPromptEndsIn) {
  make({.max_batch = 2, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 7, .num_choices = 2});
  (void)step();
  const std::vector<Scheduled>& scheduled = scheduler_->schedule();
  ASSERT_EQ(scheduled.size(), 2U);
  EXPECT_TRUE(scheduled[0].copies.empty());
  ASSERT_EQ(scheduled[1].copies.size(), 1U);
  EXPECT_EQ(scheduled[1].copies[0].from, a->cache.table(0)[1]);
  EXPECT_EQ(scheduled[1].copies[0].to, sequence(1)->cache.table(0)[1]);
}

TEST_F(SchedulerTest, AChoiceThatEndsHandsThePromptDown) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  (void)add({.prompt_tokens = 14, .max_tokens = 1, .num_choices = 3});
  Sequence* b = sequence(1);
  Sequence* c = sequence(2);
  EXPECT_THAT(step(), ElementsAre(Pair(testing::_, 13)));
  EXPECT_THAT(step(), ElementsAre(Pair(testing::_, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(c, 1)));
  EXPECT_EQ(pools_->num_used(), 0);
}

TEST_F(SchedulerTest, AChoiceThatIsNotNextInheritsNothing) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  (void)add({.prompt_tokens = 14, .max_tokens = 1, .num_choices = 2});
  Sequence* b = sequence(1);
  const std::vector<Scheduled> scheduled = scheduler_->schedule();
  Sequence* urgent = add({.max_tokens = 1, .priority = 1});
  scheduled.front().sequence->cache.advance(14);
  scheduled.front().sequence->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_EQ(pools_->num_used(), 0);
  EXPECT_THAT(step(), ElementsAre(Pair(urgent, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(b, 13)));
}

TEST_F(SchedulerTest, AChoiceCancelledInThePromptHandsDownWhatItHas) {
  make({.max_batch = 2, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 20, .num_choices = 2});
  Sequence* b = sequence(1);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_THAT(step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(b->num_computed(), 16);
}

TEST_F(SchedulerTest, ASetBackChoiceTakesThePromptFromItsSibling) {
  make({.max_batch = 2, .step_tokens = 100}, 5);
  Sequence* a = add({.prompt_tokens = 7, .max_tokens = 9, .num_choices = 2});
  Sequence* b = sequence(1);
  (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  for (int i = 0; i < 6; ++i) (void)step();  // one block together and two each, then a sixth is missing
  EXPECT_EQ(b->state, SequenceState::kWaiting);
  EXPECT_EQ(scheduler_->num_preemptions(), 1U);
  while (a->num_generated() < 8) (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1))) << "its last";
  EXPECT_THAT(step(), ElementsAre(Pair(b, b->num_tokens() - 7))) << "the prompt it has inherited";
}

TEST_F(SchedulerTest, BlocksThatStalledChoicesShareCountOnce) {
  make({.max_batch = 4, .step_tokens = 100}, 12);
  Sequence* a = add({.prompt_tokens = 5, .max_tokens = 4});                     // two blocks
  Sequence* b = add({.prompt_tokens = 20, .max_tokens = 9, .num_choices = 3});  // four together, two each
  for (int i = 0; i < 3; ++i) (void)step();
  EXPECT_EQ(pools_->num_used(), 2 + 4 + 2 + 2 + 2);
  b->active->stalled = true;
  Sequence* c = add({.prompt_tokens = 43, .max_tokens = 1});  // eleven blocks, and ten could be had
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(scheduler_->num_preemptions(), 0U) << "which would not have been enough";
  EXPECT_THAT(step(), ElementsAre(Pair(c, 43))) << "with the blocks of a, who has ended";
  EXPECT_EQ(scheduler_->num_preemptions(), 3U);
}

TEST_F(SchedulerTest, ARestartIsNobodysInheritance) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  Sequence* a = add({.prompt_tokens = 14, .num_choices = 2});
  (void)step();
  a->state = SequenceState::kEnded;
  scheduler_->restart_all();
  scheduler_->remove_ended();
  EXPECT_EQ(pools_->num_used(), 0);
  EXPECT_THAT(step(), ElementsAre(Pair(testing::_, 13)));
}

TEST_F(SchedulerTest, SuspectsRunAloneUntilTheyArePastTheFailure) {
  make({.max_batch = 4, .step_tokens = 4}, 100);
  Sequence* a = add({.prompt_tokens = 6});
  Sequence* b = add({.prompt_tokens = 2});
  Sequence* c = add({.prompt_tokens = 1});
  a->alone_until = 6;
  c->alone_until = 1;
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 2)));
  EXPECT_THAT(step(), ElementsAre(Pair(c, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(c, 1), Pair(b, 2)));
  EXPECT_EQ(a->alone_until, 0);
}

TEST_F(SchedulerTest, AStalledSuspectDoesNotHoldUpTheRest) {
  make({.max_batch = 4, .step_tokens = 4}, 100);
  Sequence* a = add({});
  Sequence* b = add({});
  a->alone_until = 1;
  a->active->stalled = true;
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
}

TEST_F(SchedulerTest, RestartingTakesAllBlocksButNoTokens) {
  make({.max_batch = 4, .step_tokens = 100}, 100);
  Sequence* a = add({.prompt_tokens = 9});
  (void)step();
  scheduler_->restart_all();
  EXPECT_EQ(pools_->num_used(), 0);
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 10)));
}

/// All tokens, and a window of five, which stands in two blocks.
std::vector<cache::GroupPool> with_window(int num_blocks, int num_window_blocks) {
  return {{.window = 0, .num_blocks = num_blocks}, {.window = 5, .num_blocks = num_window_blocks}};
}

TEST_F(SchedulerTest, StartsAsManyAsHaveTheirWindows) {
  make({.max_batch = 4, .step_tokens = 100}, with_window(100, 5));
  Sequence* a = add({.prompt_tokens = 6});
  Sequence* b = add({.prompt_tokens = 6});
  Sequence* c = add({.prompt_tokens = 6});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 6), Pair(b, 6)));
  for (int i = 0; i < 30; ++i) EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1))) << "step " << i;
  EXPECT_EQ(c->state, SequenceState::kWaiting);
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(c, 6)));
}

TEST_F(SchedulerTest, APromptTakesShorterStepsRatherThanOthersWindows) {
  make({.max_batch = 4, .step_tokens = 100}, with_window(100, 5));
  Sequence* a = add({.prompt_tokens = 40});
  Sequence* b = add({.prompt_tokens = 3});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 20)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 16)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 4), Pair(b, 3)));
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
}

TEST_F(SchedulerTest, AnOldLongPromptLeavesYoungerOnesTheirWindows) {
  make({.max_batch = 4, .step_tokens = 100}, with_window(100, 5));
  Sequence* a = add({.prompt_tokens = 90});
  a->active->stalled = true;
  Sequence* b = add({.prompt_tokens = 3});
  (void)step();
  a->active->stalled = false;
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(a, 16)));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(step(), ElementsAre(Pair(a, testing::Ge(8)), Pair(b, 1))) << "step " << i;
  }
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
}

TEST_F(SchedulerTest, ChoicesTakeOverAWindowAtTheMomentThePromptEnds) {
  make({.max_batch = 2, .step_tokens = 100}, with_window(100, 20));
  Sequence* a = add({.prompt_tokens = 30, .num_choices = 3});
  Sequence* b = sequence(1);
  Sequence* c = sequence(2);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 29)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  for (int i = 0; i < 5; ++i) (void)step();
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(c, 29))) << "too late: what it would need is left behind";
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1), Pair(c, 1)));
}

TEST_F(SchedulerTest, AStalledSequenceGivesUpItsWindowToo) {
  make({.max_batch = 4, .step_tokens = 100}, with_window(100, 2));
  Sequence* a = add({.prompt_tokens = 7});
  (void)step();
  a->active->stalled = true;
  Sequence* b = add({.prompt_tokens = 7});
  EXPECT_THAT(step(), ElementsAre(Pair(b, 7)));
  EXPECT_EQ(a->state, SequenceState::kWaiting);
  EXPECT_EQ(scheduler_->num_preemptions(), 1U);
}

}  // namespace
}  // namespace redpoll::engine
