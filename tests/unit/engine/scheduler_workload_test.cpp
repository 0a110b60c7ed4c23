// The scheduler under random workloads that hold its promises over tens of thousands of steps.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "unit/engine/scheduler_fixture.h"

namespace redpoll::engine {
namespace {

using testing::IsEmpty;

constexpr int kState = -1;  // among windows

/// Sequences come, stall, are cancelled and end at random while the promises below are checked in each step.
class SchedulerWorkloadTest : public SchedulerTest,
                              public testing::WithParamInterface<std::tuple<int, std::vector<int>, std::size_t>> {
 protected:
  static constexpr int kNumBlocks = 12;
  static constexpr int kMaxTokens = kNumBlocks * kBlockTokens;  // of one sequence: the pool just holds it
  static constexpr int kWindowBlocks = 7;                       // of windows of up to nine tokens, two
  static constexpr int kMaxBatch = 5;
  static constexpr int kStepTokens = 9;
  static constexpr std::size_t kLargeCache = 1000;  // and pools that hold more than what runs

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  void change_workload() {
    if (scheduler_->sequences().size() < 20 && pick(0, 3) == 0) {
      const int prompt_tokens = pick(1, kMaxTokens - 1);
      (void)add({.prompt_tokens = prompt_tokens,
                 .max_tokens = pick(1, kMaxTokens - prompt_tokens),
                 .priority = pick(0, 1),
                 .prompt_logprobs = pick(0, 9) == 0,
                 .num_choices = pick(0, 1) == 0 ? 1 : pick(2, 4),
                 .shared_tokens = prompt_cache_bytes_ > 0 ? pick(0, 1) * prompt_tokens + pick(-3, 3) : 0,
                 .stable_tokens = pick(-9, prompt_tokens + 1)});
    }
    for (const auto& sequence : scheduler_->sequences()) {
      if (pick(0, 19) == 0) sequence->active->stalled = !sequence->active->stalled;
      if (pick(0, 199) == 0) sequence->alone_until = sequence->num_tokens();
      if (pick(0, 299) == 0) sequence->state = SequenceState::kEnded;
      if (pick(0, 4999) == 0) sequence->has_failed = true;
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
      ASSERT_GE(sequence.cache.capacity(), sequence.num_computed() + row.num_tokens);
      ASSERT_TRUE(sequence.alone_until == 0 || scheduled.size() == 1) << "a suspect in company";
    }
    ASSERT_LE(num_tokens, kStepTokens);
  }

  /// What a model would do to the cache: each token is written at its place, and what it sees before it is its own
  /// sequence's.
  void compute(const std::vector<Scheduled>& scheduled) {
    for (const Scheduled& row : scheduled) {
      for (const auto& [group, from, to] : row.copies) contents_[{group, to}] = contents_[{group, from}];
    }
    for (const Scheduled& row : scheduled) {
      for (int group = 0; group < pools_->num_groups(); ++group) {
        ASSERT_NO_FATAL_FAILURE(compute_in_group(group, *row.sequence, row.num_tokens)) << "group " << group;
      }
    }
  }

  void compute_in_group(int group, const Sequence& sequence, int num_tokens) {
    if (pools_->kind(group) == cache::CacheKind::kRecurrent) return update_state(group, sequence, num_tokens);
    const int window = pools_->window(group);
    const int first_seen = window == 0 ? 0 : std::max(sequence.num_computed() + 1 - window, 0);
    for (int position = first_seen; position < sequence.num_computed() + num_tokens; ++position) {
      const cache::BlockId block = sequence.cache.table(group)[static_cast<std::size_t>(position / kBlockTokens)];
      ASSERT_NE(block, cache::kNoBlock) << "at " << position;
      TokenId& stored = contents_[{group, block}][position % kBlockTokens];
      const TokenId token = sequence.tokens[static_cast<std::size_t>(position)];
      if (position >= sequence.num_computed()) {
        ASSERT_EQ(pools_->pool(group).num_users(block), 1) << "writes what others read";
        stored = token;
      }
      ASSERT_EQ(stored, token) << "at " << position;
    }
  }

  /// A state is of the sequence's own tokens; of those, the last is remembered, and how many there are.
  void update_state(int group, const Sequence& sequence, int num_tokens) {
    const cache::BlockId block = sequence.cache.table(group).front();
    std::map<int, TokenId>& state = contents_[{group, block}];
    ASSERT_EQ(pools_->pool(group).num_users(block), 1);
    const int num_before = sequence.num_computed();
    if (num_before > 0) {
      ASSERT_EQ(state[0], num_before);
      ASSERT_EQ(state[1], sequence.tokens[static_cast<std::size_t>(num_before - 1)]);
    }
    state[0] = num_before + num_tokens;
    state[1] = sequence.tokens[static_cast<std::size_t>(num_before + num_tokens - 1)];
  }

  void check_books() {
    for (const auto& sequence : scheduler_->sequences()) {
      if (sequence->state != SequenceState::kWaiting) continue;
      ASSERT_EQ(sequence->cache.num_held(), 0);
      ASSERT_EQ(sequence->num_computed(), 0);
    }
    for (int group = 0; group < pools_->num_groups(); ++group) {
      std::map<cache::BlockId, int> num_holders;
      for (const auto& sequence : scheduler_->sequences()) {
        for (const cache::BlockId block : sequence->cache.table(group)) ++num_holders[block];
      }
      num_holders.erase(cache::kNoBlock);
      const cache::BlockPool& pool = pools_->pool(group);
      ASSERT_TRUE(prompts_ || static_cast<int>(num_holders.size()) == pool.num_used());
      for (const auto& [block, num] : num_holders) {
        ASSERT_TRUE(prompts_ ? pool.num_users(block) >= num : pool.num_users(block) == num);
      }
    }
    if (prompts_) {
      const Status tree = prompts_->check_integrity();
      ASSERT_TRUE(tree) << tree.error().message;
      ASSERT_LE(prompts_->stats().bytes, prompts_->stats().max_bytes);
    }
    const Status integrity = pools_->check_integrity();
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

  std::mt19937 random_{static_cast<std::mt19937::result_type>(std::get<0>(GetParam()))};
  std::map<std::pair<int, cache::BlockId>, std::map<int, TokenId>> contents_;  // by group and block
};

TEST_P(SchedulerWorkloadTest, KeepsItsPromises) {
  prompt_cache_bytes_ = std::get<2>(GetParam());
  const bool is_roomy = prompt_cache_bytes_ == kLargeCache;
  const int room = is_roomy ? 8 : 1;
  std::vector<cache::GroupPool> groups;
  for (const int window : std::get<1>(GetParam())) {
    if (window == kState) {
      groups.push_back({.kind = cache::CacheKind::kRecurrent, .window = 0, .num_blocks = 4 * room});
    } else {
      groups.push_back({.window = window, .num_blocks = room * (window == 0 ? kNumBlocks : kWindowBlocks)});
    }
  }
  make({.max_batch = kMaxBatch, .step_tokens = kStepTokens, .snapshot_tokens = 10}, groups);
  for (int i = 0; i < 10'000; ++i) {
    change_workload();
    const std::vector<Scheduled> scheduled = scheduler_->schedule();
    ASSERT_NO_FATAL_FAILURE(check_scheduled(scheduled)) << "step " << i;
    ASSERT_NO_FATAL_FAILURE(check_progress(scheduled)) << "step " << i;
    ASSERT_NO_FATAL_FAILURE(compute(scheduled)) << "step " << i;
    for (const auto& [sequence, num_tokens, copies] : scheduled) {
      sequence->cache.advance(num_tokens);
      if (sequence->num_computed() >= sequence->num_prompt_tokens()) sequence->active->prompt_event_sent = true;
      if (sequence->num_uncomputed() > 0) continue;
      sequence->append(10 * sequence->num_tokens() + sequence->choice);
      if (sequence->num_generated() >= sequence->request().max_tokens) sequence->state = SequenceState::kEnded;
    }
    scheduler_->remove_ended();
    ASSERT_NO_FATAL_FAILURE(check_books()) << "step " << i;
  }
  if (!is_roomy) {
    EXPECT_GT(scheduler_->num_preemptions(), 100U);
  }
  EXPECT_GT(num_requests_, 100);

  // Nobody comes any more and nobody is slow: all end.
  for (const auto& sequence : scheduler_->sequences()) sequence->active->stalled = false;
  for (int i = 0; i < 5'000 && !scheduler_->sequences().empty(); ++i) (void)step();
  EXPECT_THAT(scheduler_->sequences(), IsEmpty());
  if (prompts_) {
    if (is_roomy) {
      EXPECT_GT(prompts_->stats().hits, 20U);
      EXPECT_GT(prompts_->stats().hit_tokens, 200U);
    }
    prompts_->clear();
  }
  EXPECT_EQ(pools_->num_used(), 0);
}

std::string workload_name(const testing::TestParamInfo<SchedulerWorkloadTest::ParamType>& info) {
  std::string name = "Seed" + std::to_string(std::get<0>(info.param));
  for (const int window : std::get<1>(info.param)) {
    name += window == 0 ? "All" : window == kState ? "State" : "Window" + std::to_string(window);
  }
  if (std::get<2>(info.param) > 0) name += "Cache" + std::to_string(std::get<2>(info.param));
  return name;
}

using Windows = std::vector<int>;
INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerWorkloadTest,
                         testing::Combine(testing::Range(1, 5),
                                          testing::Values(Windows{0}, Windows{0, 6}, Windows{1, 0, 9}, Windows{5},
                                                          Windows{0, kState}, Windows{0, 6, kState}),
                                          testing::Values(0, 8, 1000)),
                         workload_name);

}  // namespace
}  // namespace redpoll::engine
