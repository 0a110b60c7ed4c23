// The disk tier in the engine: what was given up, or kept over a restart, is gone on from with the bits that computing
// everything gives, whatever layers remember; and whatever becomes of the files, answers stay right.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "support/temporary_folder.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

namespace fs = std::filesystem;
using test::Collected;
using test::make_prompt;
using test::make_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;
using test::TemporaryFolder;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr int kBlockTokens = 8;
constexpr int kRunBlocks = 2;
constexpr int kWindow = 20;

EngineOptions options_with(const fs::path& directory, std::size_t prompt_cache_bytes) {
  return {.max_batch = 3,
          .step_tokens = 13,
          .block_tokens = kBlockTokens,
          .context_length = 128,
          .memory_budget_bytes = 64 * kMiB,
          .prompt_cache_bytes = prompt_cache_bytes,
          .ssd_cache = SsdCacheOptions{.directory = directory,
                                       .max_bytes = 64 * kMiB,
                                       .least_tokens = 1,
                                       .run_blocks = kRunBlocks,
                                       .max_queued_bytes = 4 * kMiB}};
}

/// With logprobs of the two best.
Request make(std::vector<TokenId> prompt, int max_tokens) {
  Request request = make_request(std::move(prompt), max_tokens);
  request.num_top_logprobs = 2;
  return request;
}

void expect_same(const Collected& got, const Collected& want) {
  ASSERT_FALSE(got.error) << got.error->message;
  ASSERT_EQ(got.ids(), want.ids());
  for (std::size_t i = 0; i < got.tokens[0].size(); ++i) {
    ASSERT_EQ(got.tokens[0][i].logprob, want.tokens[0][i].logprob);
    ASSERT_EQ(got.tokens[0][i].top[1].logprob, want.tokens[0][i].top[1].logprob);
  }
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Until all that was copied out is in files. An engine that has nothing to run has copied out all there is.
void wait_for_files(const Engine& engine) {
  while (engine.stats().ssd_cache->tier.queued_bytes > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void flip_byte(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

struct DiskCase {
  std::string model;
  kernels::KvQuantization kv = kernels::KvQuantization::kOff;
};
std::string case_name(const testing::TestParamInfo<DiskCase>& info) {
  const char* kv = info.param.kv == kernels::KvQuantization::k8   ? "_q8"
                   : info.param.kv == kernels::KvQuantization::k4 ? "_q4"
                                                                  : "";
  return info.param.model + kv;
}

class DiskEngineTest : public testing::TestWithParam<DiskCase> {
 protected:
  static std::unique_ptr<Engine> start(const EngineOptions& options) {
    auto opened = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam().model);
    EXPECT_TRUE(opened) << opened.error().message;
    return start_engine(options,
                        checkpoint_loader(std::move(*opened), {.num_threads = 2, .kv_quantization = GetParam().kv},
                                          Identity::kOfContents));
  }
  std::unique_ptr<Engine> start_with_disk(std::size_t prompt_cache_bytes = 4 * kMiB) const {
    return start(options_with(folder_.path(), prompt_cache_bytes));
  }
  static std::unique_ptr<Engine> start_cold() {
    EngineOptions options = options_with({}, 0);
    options.ssd_cache.reset();
    return start(options);
  }

  static bool has_windows() {
    return GetParam().model.starts_with("gemma") || GetParam().model.starts_with("gpt_oss");  // of kWindow tokens
  }

  TemporaryFolder folder_;
};

// Around the edges of blocks, runs and the goldens' windows of 20.
constexpr int kLengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 19, 20, 21, 31, 32, 33, 40, 64, 100};

TEST_P(DiskEngineTest, ARestartLosesNothing) {
  const auto cold = start_cold();
  std::vector<Collected> answers;
  {
    const auto first = start_with_disk();
    for (const int length : kLengths) answers.push_back(run(*first, make(make_prompt(length, length), 6)));
  }
  const auto again = start_with_disk();
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    const int length = kLengths[i];
    const Request request = make(make_prompt(length, length), 6);
    ASSERT_NO_FATAL_FAILURE(expect_same(answers[i], run(*cold, request))) << length;
    const Collected restored = run(*again, request);
    ASSERT_NO_FATAL_FAILURE(expect_same(restored, answers[i])) << length;
    // Windows that have left nothing behind leave no snapshots: their cache is of the whole turn, and found if that is
    // what begins the next prompt.
    if (length + 5 > kWindow || !has_windows()) EXPECT_EQ(restored.finishes[0]->cached_tokens, length - 1);

    std::vector<TokenId> next_turn = make_prompt(length, length);
    for (const TokenId id : answers[i].ids()) next_turn.push_back(id);
    for (const TokenId id : {3, 5, 9}) next_turn.push_back(id);
    ASSERT_NO_FATAL_FAILURE(expect_same(run(*again, make(next_turn, 6)), run(*cold, make(next_turn, 6)))) << length;
  }
  EXPECT_GT(again->stats().ssd_cache->tier.restores, 0U);
  EXPECT_EQ(again->stats().ssd_cache->tier.failed, 0U);
}

TEST_P(DiskEngineTest, WhatMemoryGivesUpIsOnDisk) {
  const auto cold = start_cold();
  const auto warm = start_with_disk(64 * 1024);  // far less than all of these take
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 10; ++i) {
      const Request request = make(make_prompt(60 + i, i), 8);
      const Collected got = run(*warm, request);
      wait_for_files(*warm);
      ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*cold, request))) << i;
      if (round == 1) EXPECT_EQ(got.finishes[0]->cached_tokens, 59 + i);
    }
  }
  const EngineStats stats = warm->stats();
  EXPECT_GT(stats.ssd_cache->tier.restores, 0U);
  EXPECT_LE(stats.prompt_cache.bytes, stats.prompt_cache.max_bytes);
  EXPECT_EQ(stats.kv_bytes_used, stats.prompt_cache.bytes) << "all else has been given back";
}

TEST_P(DiskEngineTest, ManyRestoreWhatTheyShareOnce) {
  const auto cold = start_cold();
  const std::vector<TokenId> shared = make_prompt(80, 5);
  {
    (void)run(*start_with_disk(), make(shared, 2));
  }
  const auto warm = start_with_disk();
  std::vector<Running> running;
  std::vector<Request> requests;
  for (TokenId i = 0; i < 6; ++i) {
    std::vector<TokenId> prompt = shared;
    for (const TokenId id : {i, i + 7, i}) prompt.push_back(id);
    requests.push_back(make(prompt, 9));
    running.push_back(submit(*warm, requests.back()));
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    ASSERT_TRUE(running[i].events->wait_until_done());
    const Collected got = running[i].events->collected();
    ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*cold, requests[i]))) << i;
    EXPECT_GE(got.finishes[0]->cached_tokens, 79) << i;
  }
  EXPECT_LE(warm->stats().ssd_cache->tier.restores, files_in(folder_.path()).size());
}

TEST_P(DiskEngineTest, DamagedFilesChangeNoAnswer) {
  const auto cold = start_cold();
  const Request request = make(make_prompt(100, 3), 6);
  const Collected expected = run(*cold, request);
  for (const bool cut : {false, true}) {
    {
      (void)run(*start_with_disk(), request);
    }
    const std::vector<fs::path> files = files_in(folder_.path());
    ASSERT_GT(files.size(), 1U);
    EngineOptions options = options_with(folder_.path(), 4 * kMiB);
    options.ssd_cache->verify = true;
    const auto warm = start(options);
    for (const fs::path& file : files) {  // while it runs: the headers have been read
      if (cut) {
        fs::resize_file(file, fs::file_size(file) - 1);
      } else {
        flip_byte(file, fs::file_size(file) - 1);
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(run(*warm, request), expected));
    EXPECT_GT(warm->stats().ssd_cache->tier.failed, 0U);
  }
}

TEST_P(DiskEngineTest, ADirectoryThatVanishesChangesNoAnswer) {
  const auto cold = start_cold();
  const auto warm = start_with_disk(64 * 1024);
  for (int i = 0; i < 12; ++i) {
    std::error_code is_written_to;  // at the same moment, maybe
    if (i == 4) fs::remove_all(folder_.path(), is_written_to);
    const Request request = make(make_prompt(60 + i % 6, i % 6), 8);
    ASSERT_NO_FATAL_FAILURE(expect_same(run(*warm, request), run(*cold, request))) << i;
  }
}

TEST_P(DiskEngineTest, AnotherWayToStoreKeysFindsNothing) {
  {
    (void)run(*start_with_disk(), make(make_prompt(100, 3), 2));
  }
  auto opened = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam().model);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto other =
      GetParam().kv == kernels::KvQuantization::kOff ? kernels::KvQuantization::k8 : kernels::KvQuantization::kOff;
  const auto engine = start_engine(
      options_with(folder_.path(), 4 * kMiB),
      checkpoint_loader(std::move(*opened), {.num_threads = 2, .kv_quantization = other}, Identity::kOfContents));
  EXPECT_EQ(run(*engine, make(make_prompt(100, 3), 2)).finishes[0]->cached_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, DiskEngineTest,
                         testing::Values(DiskCase{"llama_interleaved_linear_rope_4bit"},
                                         DiskCase{"gemma3_text_windows_4bit"}, DiskCase{"gemma4_shared_4bit"},
                                         DiskCase{"qwen3_5_4bit"}, DiskCase{"lfm2_4bit"}, DiskCase{"gpt_oss_mxfp4"},
                                         DiskCase{"llama_interleaved_linear_rope_4bit", kernels::KvQuantization::k8},
                                         DiskCase{"gemma3_text_windows_4bit", kernels::KvQuantization::k8},
                                         DiskCase{"gemma3_text_windows_4bit", kernels::KvQuantization::k4},
                                         DiskCase{"qwen3_5_4bit", kernels::KvQuantization::k8}),
                         case_name);

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

ModelLoader scripted_with_identity(const test::ScriptedModelOptions& script) {
  return [script]() -> Result<LoadedModel> {
    auto loaded = test::scripted_loader(script)();
    loaded->identity = "scripted";
    return loaded;
  };
}

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

TEST(DiskFailureTest, ADiskThatDoesNotAnswerInTimeIsNotWaitedFor) {
  const TemporaryFolder folder;
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  {
    (void)run(*start_engine(options_with(folder.path(), kMiB), scripted_with_identity({})), make_request(prompt, 4));
  }
  EngineOptions options = options_with(folder.path(), kMiB);
  options.ssd_cache->restore_limit = std::chrono::milliseconds(-1);  // over before it has begun
  const auto engine = start_engine(options, scripted_with_identity({}));
  EXPECT_EQ(run(*engine, make_request(prompt, 4)).ids(), test::predict(prompt, 4, test::hashed_next_token(64)));
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
  const auto engine = start_engine(tight, scripted_with_identity({}));
  for (int i = 0; i < 20; ++i) {
    const std::vector<TokenId> other = make_prompt(40, 10 + i);
    const Running first = submit(*engine, make_request(other, 70));
    const Running second = submit(*engine, make_request(stored, 10));
    ASSERT_TRUE(first.events->wait_until_done());
    ASSERT_TRUE(second.events->wait_until_done());
    ASSERT_EQ(first.events->collected().ids(), test::predict(other, 70, next_token));
    ASSERT_EQ(second.events->collected().ids(), test::predict(stored, 10, next_token));
  }
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
