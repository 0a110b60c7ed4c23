// For how long the engine waits for what the disk tier has: not for a disk that does not answer, not longer than
// computing takes, and not for what memory could not keep. On scripted models.
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "support/fake_clock.h"
#include "unit/cache/blocked_disk.h"
#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

constexpr std::chrono::seconds kFarTooLong{60};
constexpr int kRunTokens = kRunBlocks * kBlockTokens;

class DiskPatienceTest : public testing::Test {
 protected:
  /// Leaves each prompt on the disk.
  void store(const std::vector<std::vector<TokenId>>& prompts, const test::ScriptedModelOptions& script = {}) const {
    const auto engine = start_engine(options_with(folder_.path(), kMiB), scripted_with_identity(script));
    for (const std::vector<TokenId>& prompt : prompts) (void)run(*engine, make_request(prompt, 4));
  }
  [[nodiscard]] EngineOptions options(std::size_t prompt_cache_bytes = kMiB) const {
    EngineOptions options = options_with(folder_.path(), prompt_cache_bytes);
    options.ssd_cache->quiet_before_writes = std::chrono::hours(1);  // nothing but reads
    options.ssd_cache->restore_slack = std::chrono::milliseconds(200);
    return options;
  }
  std::unique_ptr<Engine> start(const EngineOptions& options, const test::ScriptedModelOptions& script = {}) const {
    return start_engine(options, scripted_with_identity(script), clock_);
  }
  static void expect_answer(const Running& running, const std::vector<TokenId>& prompt, int cached_tokens) {
    ASSERT_TRUE(running.events->wait_until_done(std::chrono::seconds(20))) << "it still waits";
    const Collected got = running.events->collected();
    ASSERT_FALSE(got.error) << got.error->message;
    const auto num_tokens = static_cast<int>(got.ids().size());
    EXPECT_EQ(got.ids(), test::predict(prompt, num_tokens, test::hashed_next_token(64)));
    EXPECT_EQ(got.finishes[0]->cached_tokens, cached_tokens);
  }
  static std::uint64_t given_up(const Engine& engine) { return engine.stats().ssd_cache->given_up; }
  static void wait_for_restores(const Engine& engine, std::uint64_t num_files) {
    while (engine.stats().ssd_cache->tier.restores < num_files)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static void wait_for_readers(const test::BlockedReads& disk) {
    while (!disk.has_waiters()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  TemporaryFolder folder_;
  test::FakeClock clock_;
};

TEST_F(DiskPatienceTest, ADiskThatHangsIsWaitedForOnceHoweverManyWantIt) {
  const std::vector<std::vector<TokenId>> prompts = {make_prompt(100, 3), make_prompt(100, 4), make_prompt(100, 5),
                                                     make_prompt(100, 6), make_prompt(100, 8)};
  store(prompts);
  const auto engine = start(options());
  test::BlockedReads disk;
  std::vector<Running> running;
  for (const std::vector<TokenId>& prompt : prompts) running.push_back(submit(*engine, make_request(prompt, 4)));
  wait_for_readers(disk);
  clock_.advance(kFarTooLong);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(expect_answer(running[i], prompts[i], 0)) << i;
  }
  // Nor by who comes while it hangs.
  const std::vector<TokenId> longer = make_prompt(101, 4);
  ASSERT_NO_FATAL_FAILURE(expect_answer(submit(*engine, make_request(longer, 4)), longer, 99 + 1));
  EXPECT_EQ(given_up(*engine), 1U);
}

TEST_F(DiskPatienceTest, WhoWantsNothingOfAHangingDiskIsNotHeldUpByThoseWhoDo) {
  const std::vector<std::vector<TokenId>> stored = {make_prompt(100, 3), make_prompt(100, 4)};
  const std::vector<TokenId> other = make_prompt(60, 9);
  store(stored);
  EngineOptions tight = options();
  tight.context_length = 112;
  tight = test::with_blocks(20, tight);  // one of them and a half
  tight.memory_budget_bytes += 2 * tight.ssd_cache->max_queued_bytes;
  const auto engine = start(tight);
  test::BlockedReads disk;
  const Running first = submit(*engine, make_request(stored[0], 4));
  wait_for_readers(disk);
  const Running second = submit(*engine, make_request(stored[1], 4));
  const std::vector<TokenId> small = make_prompt(9, 11);
  ASSERT_NO_FATAL_FAILURE(expect_answer(submit(*engine, make_request(small, 4)), small, 0)) << "there is room for it";
  const Running third = submit(*engine, make_request(other, 4));  // for which there is none beside what is being read
  clock_.advance(kFarTooLong);
  ASSERT_NO_FATAL_FAILURE(expect_answer(third, other, 0));
  ASSERT_NO_FATAL_FAILURE(expect_answer(first, stored[0], 0));
  ASSERT_NO_FATAL_FAILURE(expect_answer(second, stored[1], 0));
  EXPECT_TRUE(disk.has_waiters()) << "the test has lost its subject";
}

TEST_F(DiskPatienceTest, ADiskThatAnswersAgainIsAskedAgainAndServesNobodyWhoHasGone) {
  const std::vector<std::vector<TokenId>> stored = {make_prompt(100, 3), make_prompt(100, 4)};
  store(stored);
  const auto engine = start(options());
  test::BlockedReads disk;
  const Running first = submit(*engine, make_request(stored[0], 4));
  wait_for_readers(disk);
  clock_.advance(kFarTooLong);
  ASSERT_NO_FATAL_FAILURE(expect_answer(first, stored[0], 0));
  disk.release();
  wait_for_restores(*engine, 1);  // the file that it was at
  ASSERT_NO_FATAL_FAILURE(expect_answer(submit(*engine, make_request(stored[1], 4)), stored[1], 99));
  EXPECT_EQ(engine->stats().ssd_cache->tier.restores, 1U + 7U) << "six runs and the rest of the second one";
  EXPECT_EQ(given_up(*engine), 1U);
}

// 250 tokens a second while nothing has been measured.
TEST_F(DiskPatienceTest, EachFileHasAsLongAsComputingAllUpToItsEndTakes) {
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  store({prompt});
  const auto engine = start(options());
  test::BlockedReads disk(1);
  const Running running = submit(*engine, make_request(prompt, 4));
  wait_for_restores(*engine, 1);
  wait_for_readers(disk);
  clock_.advance(std::chrono::milliseconds(300));  // of 200 + 32 / 250 s
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(given_up(*engine), 0U);
  disk.allow_one_more();
  wait_for_restores(*engine, 2);
  wait_for_readers(disk);
  clock_.advance(std::chrono::milliseconds(100));  // 400 of 392
  ASSERT_NO_FATAL_FAILURE(expect_answer(running, prompt, 2 * kRunTokens));
  EXPECT_EQ(given_up(*engine), 1U);
}

// A step of somebody else takes longer than all files may, and one has come meanwhile.
TEST_F(DiskPatienceTest, TheEnginesOwnStepsAreNotTheDisksFault) {
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  store({prompt});
  std::optional<test::BlockedReads> disk;
  std::atomic<bool> is_slow = false;
  test::ScriptedModelOptions script;
  script.before_step = [&](const kernels::RaggedBatch&) {
    if (!is_slow.exchange(false)) return;
    disk->allow_one_more();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time enough to read it
    clock_.advance(kFarTooLong);
  };
  const auto engine = start(options(), script);
  disk.emplace();
  const Running other = submit(*engine, make_request(make_prompt(20, 30), 90));
  ASSERT_TRUE(other.events->wait_for_tokens(1));
  const Running running = submit(*engine, make_request(prompt, 4));
  wait_for_readers(*disk);
  is_slow = true;
  while (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(other.events->wait_until_done());
  disk->release();
  ASSERT_NO_FATAL_FAILURE(expect_answer(running, prompt, 99));
  EXPECT_EQ(given_up(*engine), 0U);
}

TEST_F(DiskPatienceTest, ACacheThatIsOfNoUseInPartsIsComputedWhole) {
  const test::ScriptedModelOptions wide_window{.windows = {0, 100}};
  std::vector<TokenId> turn = make_prompt(60, 3);
  store({turn}, wide_window);
  // The whole turn is what the snapshot was of.
  for (const TokenId id : test::predict(turn, 4, test::hashed_next_token(64))) turn.push_back(id);
  const auto engine = start(options(), wide_window);
  test::BlockedReads disk(2);
  const Running running = submit(*engine, make_request(turn, 4));
  wait_for_restores(*engine, 2);
  wait_for_readers(disk);
  clock_.advance(kFarTooLong);
  ASSERT_NO_FATAL_FAILURE(expect_answer(running, turn, 0));
}

TEST_F(DiskPatienceTest, NoMoreIsReadThanMemoryMayKeep) {
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  store({prompt});
  const std::size_t block_bytes = test::scripted_bytes_per_token() * kBlockTokens;
  for (const int num_blocks : {13, 12, 7, 6, 1}) {
    const auto engine = start(options(static_cast<std::size_t>(num_blocks) * block_bytes));
    const int num_runs = num_blocks / kRunBlocks;
    const int cached = num_blocks == 13 ? 99 : num_runs * kRunTokens;
    const auto explained = engine->explain({.prompt = prompt});
    ASSERT_TRUE(explained);
    EXPECT_EQ(explained->disk_tokens, cached) << num_blocks;
    ASSERT_NO_FATAL_FAILURE(expect_answer(submit(*engine, make_request(prompt, 0)), prompt, cached)) << num_blocks;
    EXPECT_EQ(engine->stats().ssd_cache->tier.restores,
              static_cast<std::uint64_t>(num_runs + (num_blocks == 13 ? 1 : 0)));
  }
}

TEST_F(DiskPatienceTest, OfSnapshotsTheLongestIsReadThatMemoryMayKeep) {
  const test::ScriptedModelOptions state{.windows = {0}, .has_state = true};
  const std::vector<TokenId> begun = make_prompt(41, 3);  // leaves a snapshot before its last token
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  store({begun, prompt}, state);
  std::size_t bytes = 0;
  const EngineStats stats = start(options(), state)->stats();
  for (const KvGroupStats& group : stats.kv_groups) {
    bytes += group.bytes_per_block * (group.kind == cache::CacheKind::kRecurrent ? 1 : 40 / kBlockTokens);
  }
  const auto engine = start(options(bytes), state);
  ASSERT_NO_FATAL_FAILURE(expect_answer(submit(*engine, make_request(prompt, 4)), prompt, 40));
}

}  // namespace
}  // namespace redpoll::engine
