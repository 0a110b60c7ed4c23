#include "engine/memory_budget.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "engine/available_memory.h"

namespace redpoll::engine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
constexpr std::size_t kMiB = 1U << 20U;

MemoryRequest small_model() {
  return {.budget_bytes = 100 * kMiB,
          .weight_bytes = 60 * kMiB,
          .groups = {{.window = 0, .bytes_per_block = kMiB}},
          .block_tokens = 32,
          .model_context = 1024,
          .context_length = 0,
          .max_batch = 8,
          .step_tokens = 64};
}

TEST(MemoryBudgetTest, GivesTheCacheWhatTheWeightsLeave) {
  const auto plan = plan_memory(small_model());
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(40));
  EXPECT_EQ(plan->max_context, 1024);
  EXPECT_EQ(plan->budget_bytes, 100 * kMiB);
}

TEST(MemoryBudgetTest, TakesNoMoreBlocksThanAFullBatchCouldUse) {
  MemoryRequest request = small_model();
  request.budget_bytes = 10'000 * kMiB;
  request.context_length = 100;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(4 * 8));
  EXPECT_EQ(plan->max_context, 100);
}

TEST(MemoryBudgetTest, ShortensTheContextWhenMemoryDoesNotAllowTheModels) {
  MemoryRequest request = small_model();
  request.budget_bytes = 70 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(10));
  EXPECT_EQ(plan->max_context, 320);
}

/// Layers of which half see the last 100 tokens only: such a window stands in five blocks at most.
MemoryRequest sliding_model() {
  MemoryRequest request = small_model();
  request.budget_bytes = 260 * kMiB;
  request.groups.push_back({.window = 100, .bytes_per_block = kMiB});
  return request;
}

TEST(MemoryBudgetTest, SetsWindowsAsideForAllSequences) {
  const auto plan = plan_memory(sliding_model());
  ASSERT_TRUE(plan);
  // Eight of five blocks, one more each for the tokens of a step that begin within a block, and two for the step.
  EXPECT_THAT(plan->num_blocks, ElementsAre(150, 50));
  EXPECT_EQ(plan->max_context, 1024);
}

TEST(MemoryBudgetTest, APromptCacheAddsItsBlocksWhereMemoryAllows) {
  MemoryRequest request = small_model();
  request.context_length = 100;
  request.prompt_cache_bytes = 5 * kMiB;
  request.budget_bytes = 10'000 * kMiB;
  EXPECT_THAT(plan_memory(request)->num_blocks, ElementsAre(4 * 8 + 5));
  request.budget_bytes = (60 + 34) * kMiB;
  EXPECT_THAT(plan_memory(request)->num_blocks, ElementsAre(34));
}

// Of 200 MiB, 8 windows of 6 blocks and a step's 2 take 50 and leave 150; a quarter of that, halved, is for snapshots.
TEST(MemoryBudgetTest, SnapshotsOfWindowsAreSetAsideOutOfHalfOfThePromptCache) {
  const auto windows_with = [](std::size_t prompt_cache_bytes) {
    MemoryRequest request = sliding_model();
    request.prompt_cache_bytes = prompt_cache_bytes;
    const auto plan = plan_memory(request);
    EXPECT_TRUE(plan);
    EXPECT_LE(plan->num_blocks[0] + plan->num_blocks[1], 200);
    return plan->num_blocks[1];
  };
  const int without = windows_with(0);
  EXPECT_EQ(windows_with(9 * kMiB), without);             // half is less than a window's five blocks
  EXPECT_EQ(windows_with(20 * kMiB), without + 2 * 5);    // two snapshots
  EXPECT_EQ(windows_with(1000 * kMiB), without + 3 * 5);  // as many as memory leaves
}

TEST(MemoryBudgetTest, SnapshotsLeaveTheContextThatWasAskedFor) {
  MemoryRequest request = sliding_model();
  request.model_context = request.context_length = 32'768;  // 1,024 blocks
  for (std::size_t budget = 1100 * kMiB; budget <= 1300 * kMiB; budget += 7 * kMiB) {
    request.budget_bytes = budget;
    request.prompt_cache_bytes = 0;
    const auto without = plan_memory(request);
    request.prompt_cache_bytes = 1000 * kMiB;
    const auto with = plan_memory(request);
    ASSERT_TRUE(without && with) << budget;
    EXPECT_EQ(without->max_context, 32'768) << budget;
    EXPECT_EQ(with->max_context, 32'768) << budget;
  }
}

TEST(MemoryBudgetTest, WindowsTakeNoMoreThanHalfOfTheCache) {
  MemoryRequest request = sliding_model();
  request.budget_bytes = 100 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(20, 20)) << "three sequences";
  EXPECT_EQ(plan->max_context, 640);
}

TEST(MemoryBudgetTest, FewerWindowsMakeRoomForAContextThatWasAskedFor) {
  MemoryRequest request = sliding_model();
  request.budget_bytes = 100 * kMiB;
  request.context_length = 1000;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(32, 8)) << "one sequence, and a step's tokens";
  EXPECT_EQ(plan->max_context, 1000);
}

TEST(MemoryBudgetTest, AWindowIsNeverLargerThanTheContext) {
  MemoryRequest request = sliding_model();
  request.context_length = 64;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(16, 16));
}

TEST(MemoryBudgetTest, WhereAllLayersHaveAWindowItTakesAll) {
  MemoryRequest request = sliding_model();
  request.groups.erase(request.groups.begin());
  request.budget_bytes = 110 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(50));
  EXPECT_EQ(plan->max_context, 1024);
}

TEST(MemoryBudgetTest, SetsAStateAsideForEachSequence) {
  MemoryRequest request = small_model();
  request.groups.push_back({.kind = cache::CacheKind::kRecurrent, .bytes_per_block = 2 * kMiB});
  auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(24, 8));
  EXPECT_EQ(plan->max_context, 24 * 32);
  request.groups[1].bytes_per_block = 7 * kMiB;  // of 40, half
  plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(26, 2));
  request.groups[1].bytes_per_block = 30 * kMiB;
  plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(10, 1));
  request.groups[1].bytes_per_block = 40 * kMiB;
  EXPECT_FALSE(plan_memory(request));
}

TEST(MemoryBudgetTest, StatesAloneLimitNoContext) {
  MemoryRequest request = small_model();
  request.groups = {{.kind = cache::CacheKind::kRecurrent, .bytes_per_block = 9 * kMiB}};
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(4));
  EXPECT_EQ(plan->max_context, 1024);
}

TEST(MemoryBudgetTest, AWindowAsLargeAsIntegersGoIsCounted) {
  MemoryRequest request = small_model();
  request.budget_bytes = std::size_t{1} << 62U;
  request.model_context = 1 << 30;
  request.max_batch = 128;
  request.groups = {{.bytes_per_block = 1}, {.window = 1 << 30, .bytes_per_block = 1}};
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(INT32_MAX / 32, INT32_MAX / 32));
}

TEST(MemoryBudgetTest, OneSequenceThatComesToItsEndIsEnough) {
  MemoryRequest request = sliding_model();
  request.budget_bytes = 70 * kMiB;
  auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(5, 5)) << "of which five are a whole window";
  EXPECT_EQ(plan->max_context, 160);
  request.budget_bytes = 72 * kMiB;
  plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(7, 5));
  EXPECT_EQ(plan->max_context, 224);
  request.context_length = 240;
  EXPECT_FALSE(plan_memory(request)) << "eight blocks and five";
}

TEST(MemoryBudgetTest, SaysWhatDoesNotFitWithTheNumbers) {
  MemoryRequest request = small_model();
  request.budget_bytes = 60 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      plan.error().message,
      "the model does not fit: weights take 60.0 MiB, the activations and logits of a step 0.0 MiB and a cache of 32 "
      "tokens 1.0 MiB, together 61.0 MiB, but the memory budget is 60.0 MiB; raise --memory-budget, lower "
      "--step-tokens "
      "or --max-batch, or serve a smaller model");
  EXPECT_EQ(plan.error().param, "memory-budget");
  request.budget_bytes = 10 * kMiB;
  EXPECT_FALSE(plan_memory(request));
}

TEST(MemoryBudgetTest, EstimatesWhatAStepTakes) {
  // 512 tokens of 1000 numbers, and at most 512 rows of logits, though eight prompts may be scored 64 tokens at a time.
  StepShape step{
      .step_tokens = 512, .max_batch = 9, .context = 2048, .vocab_size = 50'000, .activations_per_token = 1000};
  EXPECT_EQ(step_bytes(step), 512U * (2 * 1000 + 62'500) * 4);
  step.max_batch = 2;
  EXPECT_EQ(step_bytes(step), (512U * 2 * 1000 + 2U * 64 * 62'500) * 4);
  step.context = 100;  // more tokens than two sequences have
  EXPECT_EQ(step_bytes(step), (200U * 2 * 1000 + 2U * 64 * 62'500) * 4);
}

TEST(MemoryBudgetTest, AStepKeepsWhatIsSeenUnpackedInOnePass) {
  // Of one sequence, and of 2,048 tokens at most.
  StepShape step{.step_tokens = 4098, .max_batch = 2, .context = 100, .vocab_size = 10, .unpacked_bytes_per_token = 7};
  const std::size_t logits = std::size_t{2} * 64 * 10 * 5;
  EXPECT_EQ(step_bytes(step), logits + 100 * 7);
  step.context = 5000;
  EXPECT_EQ(step_bytes(step), logits + 2048 * 7);
  step.step_tokens = 70;
  EXPECT_EQ(step_bytes(step), 70 * 10 * 5 + 70 * 7);
}

TEST(MemoryBudgetTest, LeavesRoomForAStep) {
  MemoryRequest request = small_model();
  request.step_bytes = 30 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(10));
  request.step_bytes = 41 * kMiB;
  const auto refused = plan_memory(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "the model does not fit: weights take 60.0 MiB, the activations and logits of a step 41.0 MiB and a cache "
      "of 32 tokens 1.0 MiB, together 102.0 MiB, but the memory budget is 100.0 MiB; raise --memory-budget, lower "
      "--step-tokens or --max-batch, or serve a smaller model");
}

TEST(MemoryBudgetTest, LeavesRoomForTheDiskTierAndSaysSo) {
  MemoryRequest request = small_model();
  request.step_bytes = 10 * kMiB;
  request.disk_bytes = 20 * kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->num_blocks, ElementsAre(10));
  EXPECT_EQ(plan->step_bytes, 10 * kMiB);
  request.disk_bytes = 31 * kMiB;
  const auto refused = plan_memory(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "the model does not fit: weights take 60.0 MiB, the activations and logits of a step 10.0 MiB, the buffers of "
      "--ssd-cache 31.0 MiB and a cache of 32 tokens 1.0 MiB, together 102.0 MiB, but the memory budget is 100.0 MiB; "
      "raise --memory-budget, leave out --ssd-cache, lower --step-tokens or --max-batch, or serve a smaller model");
}

TEST(MemoryBudgetTest, WarnsOfABudgetAboveWhatThereIs) {
  EXPECT_EQ(budget_warning(0, 100 * kMiB), std::nullopt);
  EXPECT_EQ(budget_warning(100 * kMiB, 100 * kMiB), std::nullopt);
  EXPECT_EQ(budget_warning(200 * kMiB, 100 * kMiB),
            "the memory budget of 200.0 MiB is more than the 100.0 MiB that this process may use; lower "
            "--memory-budget, or it may be ended for want of memory");
}

TEST(MemoryBudgetTest, RefusesAContextThatWasAskedForAndDoesNotFit) {
  MemoryRequest request = small_model();
  request.budget_bytes = 70 * kMiB;
  request.context_length = 1000;
  const auto plan = plan_memory(request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      plan.error().message,
      "the model does not fit: weights take 60.0 MiB, the activations and logits of a step 0.0 MiB and a cache of "
      "1000 tokens 32.0 MiB, together 92.0 MiB, but the memory budget is 70.0 MiB; raise --memory-budget, lower "
      "--step-tokens or --max-batch, or serve a smaller model");
}

TEST(MemoryBudgetTest, RefusesAContextThatTheModelWasNotTrainedFor) {
  MemoryRequest request = small_model();
  request.context_length = 2000;
  const auto plan = plan_memory(request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "expected --context-length of at most 1024, which the model was trained for, got 2000");
  EXPECT_EQ(plan.error().param, "context-length");
}

TEST(MemoryBudgetTest, DefaultsToThreeQuartersOfWhatThereIs) {
  EXPECT_GT(available_memory_bytes(), 64 * kMiB);
  MemoryRequest request = small_model();
  request.budget_bytes = 0;
  request.weight_bytes = kMiB;
  const auto plan = plan_memory(request);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->budget_bytes, default_memory_budget());
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_ / "outer" / "inner"); }
  void TearDown() override { fs::remove_all(root_); }
  void limit(const fs::path& group, const std::string& text, const char* file = "memory.max") {
    std::ofstream(root_ / group / file) << text;
  }

  fs::path root_ = fs::path(testing::TempDir()) /
                   ("cgroup_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(CgroupTest, TakesTheLowestLimitOnTheWayUp) {
  limit("outer/inner", "5000\n");
  limit("outer", "3000\n");
  limit("", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root_, "0::/outer/inner\n"), 3000U);
  limit("outer", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root_, "0::/outer/inner\n"), 5000U);
}

TEST_F(CgroupTest, ReadsTheRootOfAContainer) {
  limit("", "7000\n");
  EXPECT_EQ(cgroup_memory_limit(root_, "0::/\n"), 7000U);
}

TEST_F(CgroupTest, ReadsTheHierarchyOfVersion1) {
  fs::create_directories(root_ / "memory" / "docker" / "abc");
  limit("memory/docker/abc", "4000\n", "memory.limit_in_bytes");
  limit("memory", "9223372036854771712\n", "memory.limit_in_bytes");
  EXPECT_EQ(cgroup_memory_limit(root_, "5:cpu:/other\n4:memory:/docker/abc\n"), 4000U);
  // In a container its own name does not exist, and the mount is its group.
  limit("memory", "3000\n", "memory.limit_in_bytes");
  EXPECT_EQ(cgroup_memory_limit(root_, "4:memory:/not/seen/from/here\n"), 3000U);
}

TEST_F(CgroupTest, FindsNoLimitWhereNoneIsSet) {
  EXPECT_EQ(cgroup_memory_limit(root_, "0::/outer/inner\n"), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root_, "4:memory:/old\n"), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root_, ""), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit(root_ / "missing", "0::/gone\n"), std::nullopt);
}

}  // namespace
}  // namespace redpoll::engine
