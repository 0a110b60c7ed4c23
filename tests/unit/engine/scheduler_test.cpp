// The scheduler on its own: each rule, then random workloads that hold its promises over tens of thousands of steps.
#include "engine/scheduler.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <random>

namespace redpoll::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int kBlockTokens = 4;

struct SequenceOptions {
  int prompt_tokens = 1;
  int max_tokens = 100;
  int priority = 0;
  bool prompt_logprobs = false;
  int num_choices = 1;
};

class SchedulerTest : public testing::Test {
 protected:
  void make(const SchedulerOptions& options, int num_blocks) {
    pool_ = std::make_unique<cache::BlockPool>(num_blocks);
    scheduler_ = std::make_unique<Scheduler>(options, *pool_);
  }

  /// The first choice; its siblings follow it in sequences().
  Sequence* add(const SequenceOptions& options) {
    auto active = std::make_shared<ActiveRequest>();
    ++num_requests_;
    for (int i = 0; i < options.prompt_tokens; ++i) active->request.prompt.push_back(1000 * num_requests_ + i);
    active->request.max_tokens = options.max_tokens;
    active->request.priority = options.priority;
    active->request.prompt_logprobs = options.prompt_logprobs;
    active->request.num_choices = options.num_choices;
    for (int choice = 0; choice < options.num_choices; ++choice) {
      scheduler_->add(std::make_unique<Sequence>(active, choice, cache::SequenceCache(*pool_, kBlockTokens)));
    }
    return sequence(scheduler_->sequences().size() - static_cast<std::size_t>(options.num_choices));
  }
  Sequence* sequence(std::size_t index) { return scheduler_->sequences()[index].get(); }

  /// Schedules a step and does what a step does; what ran, by sequence.
  std::vector<std::pair<Sequence*, int>> step() {
    std::vector<std::pair<Sequence*, int>> ran;
    for (const auto& [sequence, num_tokens, copy] : scheduler_->schedule()) {
      ran.emplace_back(sequence, num_tokens);
      sequence->num_computed += num_tokens;
      if (sequence->num_uncomputed() > 0) continue;
      if (sequence->request().max_tokens > 0) sequence->append(2);
      if (sequence->num_generated() >= sequence->request().max_tokens) sequence->state = SequenceState::kEnded;
    }
    scheduler_->remove_ended();
    return ran;
  }

  std::unique_ptr<cache::BlockPool> pool_;
  int num_requests_ = 0;
  std::unique_ptr<Scheduler> scheduler_;  // after the pool, in which its sequences hold blocks
};

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
  EXPECT_EQ(b->cache.num_blocks(), 0);
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
  EXPECT_EQ(b->num_computed, 0);
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
  EXPECT_EQ(a->cache.num_blocks(), 3) << "nobody needs them";
  Sequence* b = add({.prompt_tokens = 8, .max_tokens = 2});
  EXPECT_THAT(step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(a->cache.num_blocks(), 0);
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
  EXPECT_THAT(step(), ElementsAre(Pair(a, 6)));
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 1))) << "the last token of the prompt again";
  EXPECT_EQ(pool_->num_used(), 3 + 3) << "three whole blocks together, one of each one's own";
  EXPECT_EQ(pool_->num_users(a->cache.table()[2]), 3);
  EXPECT_EQ(b->num_generated(), 1);
}

TEST_F(SchedulerTest, CopiesTheBlockThatAPromptEndsIn) {
  make({.max_batch = 2, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 7, .num_choices = 2});
  (void)step();
  const std::vector<Scheduled>& scheduled = scheduler_->schedule();
  ASSERT_EQ(scheduled.size(), 2U);
  EXPECT_FALSE(scheduled[0].copy);
  ASSERT_TRUE(scheduled[1].copy);
  EXPECT_EQ(scheduled[1].copy->from, a->cache.table()[1]);
  EXPECT_EQ(scheduled[1].copy->to, sequence(1)->cache.table()[1]);
}

TEST_F(SchedulerTest, AChoiceThatEndsHandsThePromptDown) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  (void)add({.prompt_tokens = 14, .max_tokens = 1, .num_choices = 3});
  Sequence* b = sequence(1);
  Sequence* c = sequence(2);
  EXPECT_THAT(step(), ElementsAre(Pair(testing::_, 14)));
  EXPECT_THAT(step(), ElementsAre(Pair(b, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(c, 1)));
  EXPECT_EQ(pool_->num_used(), 0);
}

TEST_F(SchedulerTest, AChoiceThatIsNotNextInheritsNothing) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  (void)add({.prompt_tokens = 14, .max_tokens = 1, .num_choices = 2});
  Sequence* b = sequence(1);
  const std::vector<Scheduled> scheduled = scheduler_->schedule();
  Sequence* urgent = add({.max_tokens = 1, .priority = 1});
  scheduled.front().sequence->num_computed = 14;
  scheduled.front().sequence->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_EQ(pool_->num_used(), 0);
  EXPECT_THAT(step(), ElementsAre(Pair(urgent, 1)));
  EXPECT_THAT(step(), ElementsAre(Pair(b, 14)));
}

TEST_F(SchedulerTest, AChoiceCancelledInThePromptHandsDownWhatItHas) {
  make({.max_batch = 2, .step_tokens = 8}, 100);
  Sequence* a = add({.prompt_tokens = 20, .num_choices = 2});
  Sequence* b = sequence(1);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 8)));
  a->state = SequenceState::kEnded;
  scheduler_->remove_ended();
  EXPECT_THAT(step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(b->num_computed, 16);
}

TEST_F(SchedulerTest, ASetBackChoiceTakesThePromptFromItsSibling) {
  make({.max_batch = 2, .step_tokens = 100}, 5);
  Sequence* a = add({.prompt_tokens = 7, .max_tokens = 9, .num_choices = 2});
  Sequence* b = sequence(1);
  (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  for (int i = 0; i < 4; ++i) (void)step();  // 1 block together, then 2 each: the sixth block is missing
  EXPECT_EQ(b->state, SequenceState::kWaiting);
  EXPECT_EQ(scheduler_->num_preemptions(), 1U);
  while (a->num_generated() < 8) (void)step();
  EXPECT_THAT(step(), ElementsAre(Pair(a, 1))) << "its last";
  EXPECT_THAT(step(), ElementsAre(Pair(b, b->num_tokens() - 7))) << "the prompt it has inherited";
}

TEST_F(SchedulerTest, StalledChoicesGiveWhatTheyShareOnce) {
  make({.max_batch = 4, .step_tokens = 100}, 8);
  Sequence* a = add({.prompt_tokens = 20, .max_tokens = 3, .num_choices = 3});  // five blocks, and one more each
  (void)step();
  (void)step();
  EXPECT_EQ(pool_->num_used(), 8);
  a->active->stalled = true;
  Sequence* b = add({.prompt_tokens = 31, .max_tokens = 1});  // eight blocks
  EXPECT_THAT(step(), ElementsAre(Pair(b, 31)));
  a->active->stalled = false;
  EXPECT_THAT(step(), ElementsAre(Pair(a, a->num_tokens())));
}

TEST_F(SchedulerTest, ARestartIsNobodysInheritance) {
  make({.max_batch = 1, .step_tokens = 100}, 100);
  Sequence* a = add({.prompt_tokens = 14, .num_choices = 2});
  (void)step();
  a->state = SequenceState::kEnded;
  scheduler_->restart_all();
  scheduler_->remove_ended();
  EXPECT_EQ(pool_->num_used(), 0);
  EXPECT_THAT(step(), ElementsAre(Pair(testing::_, 14)));
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
  EXPECT_EQ(pool_->num_used(), 0);
  EXPECT_EQ(scheduler_->num_preemptions(), 0U);
  EXPECT_THAT(step(), ElementsAre(Pair(a, 10)));
}

/// Sequences come, stall, are cancelled and end at random while the promises below are checked in each step.
class SchedulerWorkloadTest : public SchedulerTest, public testing::WithParamInterface<int> {
 protected:
  static constexpr int kNumBlocks = 12;
  static constexpr int kMaxTokens = kNumBlocks * kBlockTokens;  // of one sequence: the pool just holds it
  static constexpr int kMaxBatch = 5;
  static constexpr int kStepTokens = 9;

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  void change_workload() {
    if (scheduler_->sequences().size() < 20 && pick(0, 3) == 0) {
      const int prompt_tokens = pick(1, kMaxTokens - 1);
      (void)add({.prompt_tokens = prompt_tokens,
                 .max_tokens = pick(1, kMaxTokens - prompt_tokens),
                 .priority = pick(0, 1),
                 .prompt_logprobs = pick(0, 9) == 0,
                 .num_choices = pick(0, 1) == 0 ? 1 : pick(2, 4)});
    }
    for (const auto& sequence : scheduler_->sequences()) {
      if (pick(0, 19) == 0) sequence->active->stalled = !sequence->active->stalled;
      if (pick(0, 199) == 0) sequence->alone_until = sequence->num_tokens();
      if (pick(0, 299) == 0) sequence->state = SequenceState::kEnded;
    }
    scheduler_->remove_ended();
    if (pick(0, 999) == 0) scheduler_->restart_all();
  }

  void check_scheduled(const std::vector<Scheduled>& scheduled) {
    ASSERT_LE(scheduled.size(), static_cast<std::size_t>(kMaxBatch));
    int num_tokens = 0;
    for (const Scheduled& row : scheduled) {
      num_tokens += row.num_tokens;
      const Sequence& sequence = *row.sequence;
      ASSERT_GT(row.num_tokens, 0);
      ASSERT_LE(row.num_tokens, sequence.num_uncomputed());
      ASSERT_EQ(sequence.state, SequenceState::kRunning);
      ASSERT_FALSE(sequence.active->stalled);
      ASSERT_GE(sequence.cache.capacity(), sequence.num_computed + row.num_tokens);
      ASSERT_TRUE(sequence.alone_until == 0 || scheduled.size() == 1) << "a suspect in company";
    }
    ASSERT_LE(num_tokens, kStepTokens);
  }

  /// What a model would do to the cache: each token is written at its place, and what is there before it is its own
  /// sequence's.
  void compute(const std::vector<Scheduled>& scheduled) {
    for (const Scheduled& row : scheduled) {
      if (row.copy) contents_[row.copy->to] = contents_[row.copy->from];
    }
    for (const auto& [sequence, num_tokens, copy] : scheduled) {
      for (int position = 0; position < sequence->num_computed + num_tokens; ++position) {
        const cache::BlockId block = sequence->cache.table()[static_cast<std::size_t>(position / kBlockTokens)];
        TokenId& stored = contents_[block][position % kBlockTokens];
        const TokenId token = sequence->tokens[static_cast<std::size_t>(position)];
        if (position >= sequence->num_computed) {
          ASSERT_EQ(pool_->num_users(block), 1) << "writes what others read";
          stored = token;
        }
        ASSERT_EQ(stored, token) << "at " << position;
      }
    }
  }

  void check_books() {
    std::map<cache::BlockId, int> num_holders;
    for (const auto& sequence : scheduler_->sequences()) {
      for (const cache::BlockId block : sequence->cache.table()) ++num_holders[block];
      if (sequence->state != SequenceState::kWaiting) continue;
      ASSERT_EQ(sequence->cache.num_blocks(), 0);
      ASSERT_EQ(sequence->num_computed, 0);
    }
    ASSERT_EQ(static_cast<int>(num_holders.size()), pool_->num_used());
    for (const auto& [block, num] : num_holders) ASSERT_EQ(pool_->num_users(block), num);
    const Status integrity = pool_->check_integrity();
    ASSERT_TRUE(integrity) << integrity.error().message;
  }

  void check_progress(const std::vector<Scheduled>& scheduled) {
    const bool any_can_run = std::ranges::any_of(scheduler_->sequences(), [](const auto& s) { return s->can_run(); });
    ASSERT_EQ(scheduled.empty(), !any_can_run) << "nothing runs although something could";
    for (const auto& sequence : scheduler_->sequences()) {  // the oldest that runs at all always moves
      if (sequence->state != SequenceState::kRunning || !sequence->can_run()) continue;
      if (sequence->alone_until > 0 || scheduled.front().sequence->alone_until > 0) break;
      const bool moves = std::ranges::find(scheduled, sequence.get(), &Scheduled::sequence) != scheduled.end();
      ASSERT_TRUE(moves) << "the oldest is left out";
      break;
    }
  }

  std::mt19937 random_{static_cast<std::mt19937::result_type>(GetParam())};
  std::map<cache::BlockId, std::map<int, TokenId>> contents_;
};

TEST_P(SchedulerWorkloadTest, KeepsItsPromises) {
  make({.max_batch = kMaxBatch, .step_tokens = kStepTokens}, kNumBlocks);
  for (int i = 0; i < 10'000; ++i) {
    change_workload();
    const std::vector<Scheduled> scheduled = scheduler_->schedule();
    ASSERT_NO_FATAL_FAILURE(check_scheduled(scheduled)) << "step " << i;
    ASSERT_NO_FATAL_FAILURE(check_progress(scheduled)) << "step " << i;
    ASSERT_NO_FATAL_FAILURE(compute(scheduled)) << "step " << i;
    for (const auto& [sequence, num_tokens, copy] : scheduled) {
      sequence->num_computed += num_tokens;
      if (sequence->num_computed >= sequence->num_prompt_tokens()) sequence->active->prompt_event_sent = true;
      if (sequence->num_uncomputed() > 0) continue;
      sequence->append(10 * sequence->num_tokens() + sequence->choice);
      if (sequence->num_generated() >= sequence->request().max_tokens) sequence->state = SequenceState::kEnded;
    }
    scheduler_->remove_ended();
    ASSERT_NO_FATAL_FAILURE(check_books()) << "step " << i;
  }
  EXPECT_GT(scheduler_->num_preemptions(), 100U);
  EXPECT_GT(num_requests_, 200);

  // Nobody comes any more and nobody is slow: all end.
  for (const auto& sequence : scheduler_->sequences()) sequence->active->stalled = false;
  for (int i = 0; i < 5'000 && !scheduler_->sequences().empty(); ++i) (void)step();
  EXPECT_THAT(scheduler_->sequences(), IsEmpty());
  EXPECT_EQ(pool_->num_used(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerWorkloadTest, testing::Range(1, 7));

}  // namespace
}  // namespace redpoll::engine
