// What the scheduler leaves in the prompt cache, where, and who waits for it.
#include "unit/engine/scheduler_fixture.h"

namespace redpoll::engine {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// All layers see all tokens; there is a window of five, too; there is a state, too.
const std::vector<std::vector<cache::GroupPool>> kKindsOfCaches = {
    {{.window = 0, .num_blocks = 200}},
    {{.window = 0, .num_blocks = 200}, {.window = 5, .num_blocks = 200}},
    {{.window = 0, .num_blocks = 200}, {.kind = cache::CacheKind::kRecurrent, .num_blocks = 50}},
};

class SchedulerPromptsTest : public SchedulerTest {
 protected:
  SchedulerPromptsTest() { prompt_cache_bytes_ = 10'000; }

  void start(const std::vector<cache::GroupPool>& groups) {
    make({.max_batch = 4, .step_tokens = 1000, .snapshot_tokens = 50}, groups);
  }
  /// Steps until all sequences have ended; how many tokens were computed.
  int run_all() {
    int num_tokens = 0;
    for (int i = 0; i < 10'000 && !scheduler_->sequences().empty(); ++i) {
      for (const auto& [sequence, count] : step()) num_tokens += count;
    }
    EXPECT_THAT(scheduler_->sequences(), testing::IsEmpty());
    return num_tokens;
  }
  int num_found(int shared_tokens) {  // of a prompt that begins as those of `add` and goes on otherwise
    std::vector<TokenId> prompt;
    for (int i = 0; i < shared_tokens; ++i) prompt.push_back(i);
    prompt.push_back(-1);
    return prompts_->find(prompt, shared_tokens);
  }
};

TEST_F(SchedulerPromptsTest, WhatSeveralBeginWithIsComputedOnce) {
  for (const auto& groups : kKindsOfCaches) {
    start(groups);
    for (int i = 0; i < 4; ++i) (void)add({.prompt_tokens = 43, .max_tokens = 1, .shared_tokens = 40});
    EXPECT_EQ(run_all(), 40 + 4 * 3);
    prompts_->clear();
  }
}

TEST_F(SchedulerPromptsTest, FollowersStartTheStepAfterTheirLeaderHasPaused) {
  start(kKindsOfCaches[0]);
  Sequence* a = add({.prompt_tokens = 60, .shared_tokens = 30});
  Sequence* b = add({.prompt_tokens = 33, .shared_tokens = 30});
  Sequence* c = add({.prompt_tokens = 50, .shared_tokens = 20});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 20)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 10)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 30), Pair(c, 30)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(c, 1), Pair(b, 3)));
  EXPECT_EQ(b->num_cached, 30);
  EXPECT_EQ(c->num_cached, 20);
}

TEST_F(SchedulerPromptsTest, NobodyWaitsForWhoDoesNotRun) {
  start(kKindsOfCaches[1]);
  Sequence* a = add({.prompt_tokens = 60, .shared_tokens = 30});
  Sequence* b = add({.prompt_tokens = 33, .shared_tokens = 30});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 30)));
  a->active->stalled = true;
  EXPECT_THAT(step(), ElementsAre(Pair(b, 32))) << "its leader's consumer has fallen behind";

  start(kKindsOfCaches[1]);
  a = add({.prompt_tokens = 60, .shared_tokens = 30});
  b = add({.prompt_tokens = 33, .shared_tokens = 30});
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_THAT(step(), ElementsAre(Pair(b, 32)));
}

TEST_F(SchedulerPromptsTest, WhenALeaderIsGoneTheNextOneLeads) {
  start(kKindsOfCaches[0]);
  Sequence* a = add({.prompt_tokens = 60, .shared_tokens = 40});
  for (int i = 0; i < 3; ++i) (void)add({.prompt_tokens = 43, .max_tokens = 1, .shared_tokens = 40});
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_EQ(run_all(), 40 + 3 * 3);
}

TEST_F(SchedulerPromptsTest, WhoWaitsForOneThatWaitsWaitsToo) {
  start(kKindsOfCaches[0]);
  Sequence* a = add({.prompt_tokens = 60, .shared_tokens = 30});
  Sequence* b = add({.prompt_tokens = 70, .shared_tokens = 50});  // 30 of them with a
  Sequence* c = add({.prompt_tokens = 80, .shared_tokens = 50});  // 50 with b
  EXPECT_THAT(step(), ElementsAre(Pair(a, 30)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 30)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 20)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 20)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 30)));
  EXPECT_EQ(c->num_cached, 50);
}

TEST_F(SchedulerPromptsTest, AFewTokensAreNotWaitedFor) {
  start(kKindsOfCaches[0]);
  Sequence* a = add({.prompt_tokens = 60, .shared_tokens = 10});
  Sequence* b = add({.prompt_tokens = 60, .shared_tokens = 10});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 60), Pair(b, 60)));
}

TEST_F(SchedulerPromptsTest, ScoresOfAPromptWaitForNobody) {
  start(kKindsOfCaches[0]);
  Sequence* a = add({.prompt_tokens = 40, .shared_tokens = 30});
  Sequence* b = add({.prompt_tokens = 40, .prompt_logprobs = true, .shared_tokens = 30});
  EXPECT_THAT(step(), ElementsAre(Pair(a, 40), Pair(b, 40)));
}

TEST_F(SchedulerPromptsTest, SnapshotsStandWhereOthersMayGoOn) {
  for (const auto& groups : {kKindsOfCaches[1], kKindsOfCaches[2]}) {
    start(groups);
    (void)add({.prompt_tokens = 170, .max_tokens = 3, .shared_tokens = 170, .stable_tokens = 33});
    (void)run_all();
    EXPECT_EQ(num_found(20), 0);
    EXPECT_EQ(num_found(34), 33) << "the stable part";
    EXPECT_EQ(num_found(90), 50);
    EXPECT_EQ(num_found(140), 100) << "now and then";
    EXPECT_EQ(num_found(160), 150);
    EXPECT_EQ(num_found(169), 169) << "a token before the end";
    prompts_->clear();
  }
}

TEST_F(SchedulerPromptsTest, TheThirdFindsWhereTheSecondParted) {
  for (const auto& groups : {kKindsOfCaches[1], kKindsOfCaches[2]}) {
    start(groups);
    for (const int expected : {0, 0, 37}) {
      Sequence* sequence = add({.prompt_tokens = 45, .max_tokens = 1, .shared_tokens = 37});
      (void)step();
      EXPECT_EQ(sequence->num_cached, expected);
      (void)run_all();
    }
    prompts_->clear();
  }
}

}  // namespace
}  // namespace redpoll::engine
