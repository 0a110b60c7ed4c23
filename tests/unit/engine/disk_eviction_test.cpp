// What the disk tier takes of entries that memory gives up before they were written.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "engine/disk/copy_allowance.h"
#include "support/fake_clock.h"
#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

using std::chrono::milliseconds;

TEST(CopyAllowanceTest, IsSoMuchASecondSavedUpToALimit) {
  const Clock::TimePoint start{};
  CopyAllowance allowance(1'000, 500);
  EXPECT_EQ(allowance.at(start), 500);
  allowance.spend(400);
  EXPECT_EQ(allowance.at(start), 100);
  EXPECT_EQ(allowance.at(start + milliseconds(250)), 350);
  allowance.spend(350);
  EXPECT_EQ(allowance.at(start + milliseconds(250)), 0);
  EXPECT_EQ(allowance.at(start + milliseconds(900)), 500);
  allowance.spend(800);
  EXPECT_EQ(allowance.at(start + milliseconds(900)), -300) << "what was copied in excess is owed";
  EXPECT_EQ(allowance.at(start + milliseconds(1'300)), 100);
}

/// An engine that writes nothing but what is evicted, and has room for one entry of 13 blocks: six files of two, and
/// one of what is left. An entry and a half may be copied out at first, and then an entry in 100 ms.
class DiskEvictions {
 public:
  explicit DiskEvictions(const test::ScriptedModelOptions& script, std::size_t bytes_of_entry) {
    EngineOptions options = options_with(folder_.path(), bytes_of_entry + bytes_of_entry / 4);
    options.ssd_cache->quiet_before_writes = std::chrono::hours(1);
    options.ssd_cache->max_queued_bytes = bytes_of_entry * 3 / 2;
    options.ssd_cache->eviction_bytes_per_second = bytes_of_entry * 10;
    engine_ = start_engine(options, scripted_with_identity(script), clock_);
    evict_next();
  }

  /// Files of the entry that a new one takes the place of.
  std::uint64_t evict_next() {
    const std::uint64_t before = num_files();
    EXPECT_FALSE(run(*engine_, make_request(make_prompt(kNumTokens - 1, 3 + num_prompts_++), 1)).error);
    while (engine_->stats().ssd_cache->tier.queued_bytes > 0) std::this_thread::sleep_for(milliseconds(1));
    return num_files() - before;
  }
  void advance(milliseconds time) { clock_.advance(time); }
  [[nodiscard]] std::uint64_t num_dropped() const { return engine_->stats().ssd_cache->tier.dropped; }

  static constexpr int kNumTokens = 12 * kBlockTokens + 4;

 private:
  [[nodiscard]] std::uint64_t num_files() const { return engine_->stats().ssd_cache->tier.spills; }

  test::TemporaryFolder folder_;
  test::FakeClock clock_;
  std::unique_ptr<Engine> engine_;
  int num_prompts_ = 0;
};

std::size_t bytes_of_entry(const test::ScriptedModelOptions& script) {
  const auto engine =
      Engine::start({.block_tokens = kBlockTokens, .memory_budget_bytes = 64 * kMiB}, test::scripted_loader(script));
  std::size_t bytes = 0;
  for (const auto& group : (*engine)->stats().kv_groups) bytes += 13 * group.bytes_per_block;
  return bytes;
}

TEST(DiskEvictionTest, WhatIsEvictedIsWrittenAsFarAsCopiesMayTakeTime) {
  DiskEvictions evictions({}, bytes_of_entry({}));
  EXPECT_EQ(evictions.evict_next(), 7U) << "all of the first";
  EXPECT_EQ(evictions.num_dropped(), 0U);
  const std::uint64_t in_part = evictions.evict_next();
  EXPECT_TRUE(in_part == 3 || in_part == 4) << in_part << ": half an entry's worth";
  EXPECT_EQ(evictions.num_dropped(), 1U);
  EXPECT_EQ(evictions.evict_next(), 0U);
  evictions.advance(milliseconds(200));
  EXPECT_EQ(evictions.evict_next(), 7U);
  EXPECT_EQ(evictions.num_dropped(), 2U);
}

// A window's blocks are in the last file.
TEST(DiskEvictionTest, WhatWouldBeOfNoUseInPartIsNotBegun) {
  const test::ScriptedModelOptions script{.windows = {0, 1'000}};
  DiskEvictions evictions(script, bytes_of_entry(script));
  EXPECT_EQ(evictions.evict_next(), 7U);
  EXPECT_EQ(evictions.evict_next(), 0U) << "half of it";
  EXPECT_EQ(evictions.num_dropped(), 1U);
  evictions.advance(milliseconds(100));
  EXPECT_EQ(evictions.evict_next(), 7U);
}

// The end of a prompt, which the entry at the end of its answer makes needless in memory, but not on disk: with windows
// or states nobody goes back from there.
TEST(DiskEvictionTest, ThePromptsEndIsWrittenWithTheAnswers) {
  const TemporaryFolder folder;
  const test::ScriptedModelOptions script{.windows = {0, 6}, .has_state = false};
  const std::vector<TokenId> prompt = make_prompt(60, 3);
  {
    const test::FakeClock clock;  // stands still, so that nothing is written but what is evicted
    EngineOptions options = options_with(folder.path(), 10'000);
    options.ssd_cache->quiet_before_writes = std::chrono::hours(1);
    options.ssd_cache->flush_limit = milliseconds(0);
    const auto engine = start_engine(options, scripted_with_identity(script), clock);
    EXPECT_FALSE(run(*engine, make_request(prompt, 4)).error);
    const auto explain = [&] { return *engine->explain({.prompt = prompt}); };
    EXPECT_EQ(explain().memory_tokens, 59);
    for (int i = 0; explain().memory_tokens > 0; ++i) (void)run(*engine, make_request(make_prompt(60, 9 + i), 4));
    while (engine->stats().ssd_cache->tier.queued_bytes > 0) std::this_thread::sleep_for(milliseconds(1));
  }
  const auto engine = start_engine(options_with(folder.path(), kMiB), scripted_with_identity(script));
  EXPECT_EQ(run(*engine, make_request(prompt, 4)).finishes[0]->cached_tokens, 59);
}

}  // namespace
}  // namespace redpoll::engine
