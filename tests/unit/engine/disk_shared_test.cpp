// The disk tier in the engine when others use its directory, or delete what is there.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

using std::chrono::milliseconds;

constexpr int kPrompt = 100;

class DiskSharedTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Engine> start(const test::ScriptedModelOptions& script = {}) const {
    EngineOptions options = options_with(folder_.path(), kMiB);
    options.ssd_cache->look_interval = milliseconds(1);
    return start_engine(options, scripted_with_identity(script));
  }
  /// How many tokens of the prompt that begins so were not computed.
  static int ask(Engine& engine, TokenId first) {
    const Collected got = run(engine, make_request(make_prompt(kPrompt, first), 4));
    EXPECT_EQ(got.ids(), test::predict(make_prompt(kPrompt, first), 4, test::hashed_next_token(64)));
    return got.finishes.at(0) ? got.finishes[0]->cached_tokens : -1;
  }
  static SsdCacheStats stats(const Engine& engine) { return *engine.stats().ssd_cache; }
  /// False after a minute.
  static bool wait_until(const auto& condition) {
    for (int i = 0; i < 60'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
  void delete_all() const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry.path());
  }

  TemporaryFolder folder_;
};

TEST_F(DiskSharedTest, WhatSomebodyDeletesIsWrittenAgainAtTheEnd) {
  for (const std::vector<int>& windows : {std::vector<int>{0}, std::vector<int>{0, kWindow}}) {
    const test::ScriptedModelOptions script{.windows = windows};
    auto engine = start(script);
    for (const TokenId first : {3, 9}) (void)ask(*engine, first);
    wait_for_files(*engine);
    const std::size_t num_files = files_in(folder_.path()).size();
    ASSERT_GT(num_files, 7U);
    delete_all();
    EXPECT_TRUE(wait_until([&] { return stats(*engine).tier.bytes == 0; })) << "without anybody asking for anything";
    EXPECT_EQ(stats(*engine).tier.entries, 0);
    engine.reset();
    EXPECT_EQ(files_in(folder_.path()).size(), num_files);
    engine = start(script);
    for (const TokenId first : {3, 9}) EXPECT_EQ(ask(*engine, first), kPrompt - 1);
    engine.reset();
    delete_all();
  }
}

TEST_F(DiskSharedTest, WhatIsDeletedRightBeforeTheEndIsWrittenAgain) {
  EngineOptions options = options_with(folder_.path(), kMiB);
  options.ssd_cache->look_interval = std::chrono::hours(1);
  auto engine = start_engine(options, scripted_with_identity({}));
  (void)ask(*engine, 3);
  wait_for_files(*engine);
  delete_all();
  engine.reset();
  EXPECT_EQ(ask(*start(), 3), kPrompt - 1);
}

TEST_F(DiskSharedTest, WhatCouldNotBeWrittenIsWrittenAtTheEnd) {
  auto engine = start();
  fs::permissions(folder_.path(), fs::perms::all);  // which is not trusted
  (void)ask(*engine, 3);
  wait_for_files(*engine);
  EXPECT_GT(stats(*engine).tier.failed, 0U);
  EXPECT_TRUE(files_in(folder_.path()).empty());
  fs::permissions(folder_.path(), fs::perms::owner_all);
  engine.reset();
  EXPECT_EQ(ask(*start(), 3), kPrompt - 1);
}

TEST_F(DiskSharedTest, WhatOneServerComputesAnotherReads) {
  const auto first = start();
  const auto second = start();
  (void)ask(*first, 3);
  wait_for_files(*first);
  EXPECT_TRUE(wait_until([&] { return stats(*second).tier.entries == stats(*first).tier.entries; }));
  EXPECT_EQ(ask(*second, 3), kPrompt - 1);
  EXPECT_GT(stats(*second).tier.restores, 0U);
  EXPECT_EQ(stats(*second).tier.spills, 0U);
}

TEST_F(DiskSharedTest, WhatAnotherNamespaceHasIsExplained) {
  const std::vector<TokenId> prompt = make_prompt(kPrompt, 3);
  const auto explain = [&](Engine& engine) { return *engine.explain({.prompt = prompt}); };
  EngineOptions options = options_with(folder_.path(), kMiB);
  options.ssd_cache->run_blocks = 2 * kRunBlocks;  // whose runs are of 32 tokens
  std::string other;
  {
    const auto before = start_engine(options, scripted_with_identity({}));
    other = explain(*before).cache_namespace;
    EXPECT_EQ(explain(*before).stop, CacheStop::kNothingCached);
    (void)ask(*before, 3);
  }
  const auto engine = start();
  EXPECT_EQ(explain(*engine).stop, CacheStop::kOtherNamespace);
  EXPECT_EQ(explain(*engine).other_namespace, other);
  EXPECT_EQ(explain(*engine).other_tokens, 3 * 32);
  EXPECT_NE(explain(*engine).cache_namespace, other);
  EXPECT_EQ(explain(*engine).cached_tokens(), 0);
  (void)ask(*engine, 9);  // begins with another token
  EXPECT_EQ(explain(*engine).stop, CacheStop::kOtherNamespace);
  EXPECT_EQ(explain(*engine).cached_token, std::nullopt);
  (void)ask(*engine, 3);
  EXPECT_EQ(explain(*engine).stop, CacheStop::kEndOfPrompt);
}

}  // namespace
}  // namespace redpoll::engine
