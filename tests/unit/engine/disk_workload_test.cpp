// The disk tier in the engine under random workloads and when files or the disk fail, on scripted models.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <thread>

#include "kernels/reference.h"
#include "support/fake_clock.h"
#include "unit/cache/blocked_disk.h"
#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

/// Prompts that begin alike, in a small memory, cancelled now and then, over several restarts. The scripted model finds
/// its tokens where it has stored them, or a step throws.
class DiskWorkloadTest : public testing::TestWithParam<std::tuple<std::vector<int>, bool>> {};

TEST_P(DiskWorkloadTest, AnswersAreThoseOfAColdCache) {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const test::ScriptedModelOptions script{.windows = std::get<0>(GetParam()), .has_state = std::get<1>(GetParam())};
  const auto next_token = test::hashed_next_token(script.vocab_size);
  std::uint64_t num_restores = 0;
  for (int restart = 0; restart < 6; ++restart) {
    EngineOptions options = options_with(folder.path(), 20'000);
    options.ssd_cache->max_bytes = 400'000;
    const auto engine = start_engine(options, [&]() -> Result<LoadedModel> {
      auto loaded = test::scripted_loader(script)();
      loaded->identity = "scripted";
      return loaded;
    });
    for (int i = 0; i < 40; ++i) {
      std::vector<std::pair<Running, std::vector<TokenId>>> running;
      for (int j = pick(1, 5); j > 0; --j) {
        std::vector<TokenId> prompt = make_prompt(pick(1, 110), pick(0, 3));
        if (pick(0, 1) == 0) prompt.back() = pick(0, 63);
        running.emplace_back(submit(*engine, make_request(prompt, pick(1, 12))), prompt);
        if (pick(0, 4) == 0) engine->cancel(running.back().first.id);
      }
      for (const auto& [request, prompt] : running) {
        ASSERT_TRUE(request.events->wait_until_done());
        const Collected got = request.events->collected();
        ASSERT_FALSE(got.error) << got.error->message;
        const std::vector<TokenId> ids = got.ids();
        ASSERT_EQ(ids, test::predict(prompt, static_cast<int>(ids.size()), next_token)) << restart << " " << i;
      }
    }
    EngineStats stats = engine->stats();
    for (int i = 0; i < 5'000 && stats.kv_bytes_used != stats.prompt_cache.bytes; ++i) {  // a file may still be read
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stats = engine->stats();
    }
    EXPECT_EQ(stats.kv_bytes_used, stats.prompt_cache.bytes) << "blocks are held by nobody";
    EXPECT_EQ(stats.failed_steps, 0U);
    EXPECT_LE(stats.ssd_cache->tier.bytes, stats.ssd_cache->tier.max_bytes);
    num_restores += stats.ssd_cache->tier.restores;
  }
  EXPECT_GT(num_restores, 50U);
}

INSTANTIATE_TEST_SUITE_P(Layers, DiskWorkloadTest,
                         testing::Values(std::tuple(std::vector<int>{0}, false),
                                         std::tuple(std::vector<int>{0, 6}, false),
                                         std::tuple(std::vector<int>{0}, true),
                                         std::tuple(std::vector<int>{0, 9}, true)));

/// Layers whose window is longer than the prompt: their blocks are in the snapshot alone.
const test::ScriptedModelOptions kWideWindow{.windows = {0, 100}};

TEST(DiskFailureTest, RunsWithoutTheirSnapshotAreNoCache) {
  const TemporaryFolder folder;
  const std::vector<TokenId> prompt = make_prompt(60, 3);
  {
    (void)run(*start_engine(options_with(folder.path(), kMiB), scripted_with_identity(kWideWindow)),
              make_request(prompt, 4));
  }
  const auto engine = start_engine(options_with(folder.path(), kMiB), scripted_with_identity(kWideWindow));
  int num_snapshots = 0;
  for (const fs::path& file : files_in(folder.path())) {
    if (!file.filename().string().starts_with("snapshot-")) continue;
    fs::remove(file);
    ++num_snapshots;
  }
  ASSERT_GT(num_snapshots, 0);
  // The whole turn is what the snapshot was of.
  std::vector<TokenId> turn = prompt;
  for (const TokenId id : test::predict(prompt, 4, test::hashed_next_token(64))) turn.push_back(id);
  const Collected got = run(*engine, make_request(turn, 4));
  ASSERT_FALSE(got.error) << got.error->message;
  EXPECT_EQ(got.ids(), test::predict(turn, 4, test::hashed_next_token(64)));
  EXPECT_EQ(got.finishes[0]->cached_tokens, 0);
  EXPECT_EQ(engine->stats().failed_steps, 0U);
}

TEST(DiskPaceTest, WhoAsksAgainAtOnceSharesNothingWithWhatIsWritten) {
  const TemporaryFolder folder;
  test::FakeClock clock;
  EngineOptions options = options_with(folder.path(), kMiB);
  options.ssd_cache->quiet_before_writes = std::chrono::milliseconds(50);
  const auto engine = start_engine(options, scripted_with_identity({}), clock);
  const auto copied_out = [&] {
    const SsdCacheStats stats = *engine->stats().ssd_cache;
    return stats.tier.spills + (stats.tier.queued_bytes > 0 ? 1 : 0);
  };
  const Request request = make_request(make_prompt(100, 3), 4);
  for (int i = 0; i < 5; ++i) (void)run(*engine, request);
  while (engine->stats().running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  clock.advance(std::chrono::milliseconds(49));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // time enough to write all, if that were begun
  EXPECT_LE(copied_out(), 1U) << "one now and then, while something runs";
  EXPECT_GT(engine->stats().ssd_cache->waiting, 0U);
  clock.advance(std::chrono::milliseconds(50));  // since the last step, which may have ended after the 49
  wait_for_files(*engine);
  EXPECT_GT(copied_out(), 3U);
}

TEST(DiskFailureTest, ADiskThatDoesNotAnswerInTimeIsNotWaitedFor) {
  const TemporaryFolder folder;
  const auto next_token = test::hashed_next_token(64);
  const std::vector<TokenId> stored = make_prompt(100, 3);
  {
    (void)run(*start_engine(options_with(folder.path(), kMiB), scripted_with_identity({})), make_request(stored, 4));
  }
  EngineOptions options = options_with(folder.path(), kMiB);
  options.ssd_cache->restore_slack = std::chrono::milliseconds(20);
  const auto engine = start_engine(options, scripted_with_identity({}));
  test::BlockedDisk disk;
  (void)run(*engine, make_request(make_prompt(50, 9), 4));  // what it leaves is being written from now on
  while (!disk.has_waiters()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Collected got = run(*engine, make_request(stored, 4));
  EXPECT_EQ(got.ids(), test::predict(stored, 4, next_token));
  EXPECT_EQ(got.finishes[0]->cached_tokens, 0);
  disk.release();
}

TEST(DiskFailureTest, WhoRunsTakesTheBlocksOfWhatIsBeingRead) {
  const TemporaryFolder folder;
  const auto next_token = test::hashed_next_token(64);
  EngineOptions options = options_with(folder.path(), kMiB);
  options.context_length = 112;
  const std::vector<TokenId> stored = make_prompt(100, 3);
  {
    (void)run(*start_engine(options, scripted_with_identity({})), make_request(stored, 4));
  }
  EngineOptions tight = test::with_blocks(20, options);  // 160 tokens: one sequence and a half
  tight.memory_budget_bytes += 2 * options.ssd_cache->max_queued_bytes;
  tight.ssd_cache->restore_slack = std::chrono::hours(1);
  const auto engine = start_engine(tight, scripted_with_identity({}));
  test::BlockedDisk disk;
  (void)run(*engine, make_request(make_prompt(9, 9), 1));  // is being written from now on, before anything is read
  while (!disk.has_waiters()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<TokenId> other = make_prompt(20, 10);
  Request long_one = make_request(other, 90);
  const Running first = submit(*engine, long_one);
  ASSERT_TRUE(first.events->wait_for_tokens(1));
  const Running second = submit(*engine, make_request(stored, 10));
  ASSERT_TRUE(first.events->wait_until_done(std::chrono::seconds(20))) << "it waits for blocks that nobody gives up";
  EXPECT_EQ(first.events->collected().ids(), test::predict(other, 90, next_token));
  ASSERT_TRUE(second.events->wait_until_done(std::chrono::seconds(20)));
  EXPECT_EQ(second.events->collected().ids(), test::predict(stored, 10, next_token));
  EXPECT_EQ(second.events->collected().finishes[0]->cached_tokens, 0) << "what was being read was given up";
}

TEST(DiskFailureTest, WhatAFolderBlocksIsNotCopiedOutAgain) {
  const TemporaryFolder folder;
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  {
    (void)run(*start_engine(options_with(folder.path(), kMiB), scripted_with_identity({})), make_request(prompt, 4));
  }
  const std::vector<fs::path> files = files_in(folder.path());
  ASSERT_GT(files.size(), 3U);
  for (const fs::path& file : files) {
    fs::remove(file);
    fs::create_directory(file);
  }
  const auto engine = start_engine(options_with(folder.path(), 20'000), scripted_with_identity({}));
  const auto failed = [&] { return engine->stats().ssd_cache->tier.failed; };
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(run(*engine, make_request(prompt, 4)).error);
    (void)run(*engine, make_request(make_prompt(100, 9 + i), 4));  // evicts it
    wait_for_files(*engine);
  }
  EXPECT_EQ(failed(), 1U) << "the first run; what builds on it could not be found";
  EXPECT_GT(engine->stats().ssd_cache->tier.dropped, 0U);
}

/// Copies between pools and host memory fail once, for want of memory, when `calls_until_failure` comes to nothing.
class FailingCopies final : public kernels::ReferenceKernels {
 public:
  explicit FailingCopies(std::atomic<int>& calls_until_failure) : calls_until_failure_(calls_until_failure) {}
  void read_blocks(std::span<kernels::mx::array* const> pools, std::span<const int> blocks,
                   std::span<std::byte> out) const override {
    count();
    ReferenceKernels::read_blocks(pools, blocks, out);
  }
  void write_blocks(std::span<kernels::mx::array* const> pools, std::span<const int> blocks,
                    std::span<const std::byte> contents) const override {
    count();
    ReferenceKernels::write_blocks(pools, blocks, contents);
  }

 private:
  void count() const {
    if (calls_until_failure_ > 0 && --calls_until_failure_ == 0) throw std::bad_alloc();
  }
  std::atomic<int>& calls_until_failure_;
};

ModelLoader with_failing_copies(std::atomic<int>& calls_until_failure) {
  return [&]() -> Result<LoadedModel> {
    auto loaded = scripted_with_identity({})();
    loaded->kernels = std::make_unique<FailingCopies>(calls_until_failure);
    return loaded;
  };
}

/// Two that run while something else happens.
class Bystanders {
 public:
  explicit Bystanders(Engine& engine) {
    for (int i = 0; i < 2; ++i) {
      prompts_.push_back(make_prompt(20, 30 + i));
      running_.push_back(submit(engine, make_request(prompts_.back(), 60)));
      EXPECT_TRUE(running_.back().events->wait_for_tokens(1));
    }
  }
  void expect_well() const {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      ASSERT_TRUE(running_[i].events->wait_until_done());
      const Collected got = running_[i].events->collected();
      ASSERT_FALSE(got.error) << got.error->message;
      EXPECT_EQ(got.ids(), test::predict(prompts_[i], 60, test::hashed_next_token(64)));
    }
  }

 private:
  std::vector<std::vector<TokenId>> prompts_;
  std::vector<Running> running_;
};

TEST(DiskFailureTest, ACopyOutThatFailsIsDroppedAndFailsNobody) {
  const TemporaryFolder folder;
  const test::FakeClock clock;  // stands still, so that nothing is written but what is evicted
  std::atomic<int> calls_until_failure = 0;
  EngineOptions options = options_with(folder.path(), 20'000);
  options.ssd_cache->quiet_before_writes = std::chrono::hours(1);
  const auto engine = start_engine(options, with_failing_copies(calls_until_failure), clock);
  (void)run(*engine, make_request(make_prompt(100, 3), 4));
  {
    const Bystanders others(*engine);
    calls_until_failure = 1;
    const std::vector<TokenId> prompt = make_prompt(100, 9);
    const Collected got = run(*engine, make_request(prompt, 4));  // in whose place the first one is
    ASSERT_FALSE(got.error) << got.error->message;
    EXPECT_EQ(got.ids(), test::predict(prompt, 4, test::hashed_next_token(64)));
    ASSERT_NO_FATAL_FAILURE(others.expect_well());
    EXPECT_EQ(calls_until_failure, 0) << "the test has lost its subject";
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.failed_steps, 0U);
  EXPECT_EQ(stats.ssd_cache->tier.dropped, 1U);
  EXPECT_GT(stats.prompt_cache.entries, 0);
}

TEST(DiskFailureTest, ACopyInThatFailsIsComputedAndFailsNobody) {
  const TemporaryFolder folder;
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  std::atomic<int> calls_until_failure = 0;
  {
    (void)run(*start_engine(options_with(folder.path(), kMiB), with_failing_copies(calls_until_failure)),
              make_request(prompt, 4));
  }
  const test::FakeClock clock;
  EngineOptions options = options_with(folder.path(), kMiB);
  options.ssd_cache->quiet_before_writes = std::chrono::hours(1);
  const auto engine = start_engine(options, with_failing_copies(calls_until_failure), clock);
  const Bystanders others(*engine);
  calls_until_failure = 2;
  const Collected got = run(*engine, make_request(prompt, 4));
  ASSERT_FALSE(got.error) << got.error->message;
  EXPECT_EQ(got.ids(), test::predict(prompt, 4, test::hashed_next_token(64)));
  EXPECT_EQ(got.finishes[0]->cached_tokens, kRunBlocks * kBlockTokens) << "the file before";
  ASSERT_NO_FATAL_FAILURE(others.expect_well());
  EXPECT_EQ(calls_until_failure, 0);
  EXPECT_EQ(engine->stats().failed_steps, 0U);
}

TEST(DiskOptionsTest, WithoutAPromptCacheThereIsNothingToKeep) {
  const TemporaryFolder folder;
  const auto started = Engine::start(options_with(folder.path(), 0), test::scripted_loader({}));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().param, "ssd-cache");
}

TEST(DiskOptionsTest, ADirectoryThatCannotBeMadeIsAnErrorAtOnce) {
  const TemporaryFolder folder;
  const auto started = Engine::start(options_with(folder.write("file", "") / "below", kMiB), [] {
    auto loaded = test::scripted_loader({})();
    loaded->identity = "scripted";
    return loaded;
  });
  ASSERT_FALSE(started);
}

}  // namespace
}  // namespace redpoll::engine
