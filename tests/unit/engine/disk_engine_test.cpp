// The disk tier in the engine: what was given up, or kept over a restart, is gone on from with the bits that computing
// everything gives, whatever layers remember; and whatever becomes of the files, answers stay right.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

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
void PrintTo(const DiskCase& one, std::ostream* out) { *out << name_of_case(one.model, one.kv); }

std::string case_name(const testing::TestParamInfo<DiskCase>& info) {
  return name_of_case(info.param.model, info.param.kv);
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

/// For every kind of layer and every way to store keys and values.
class DiskMatrixTest : public DiskEngineTest {
 protected:
  static Request request_of(int length) { return make_scored_request(make_prompt(length, length), kAnswer); }
  /// Windows that have left nothing behind leave no snapshots: their cache is of the whole turn, and found if that is
  /// what begins the next prompt.
  static bool is_found_on_disk(int length) { return length + kAnswer - 1 > kWindow || !has_windows(); }

  /// That the prompt cache holds of it and of its answer.
  static std::size_t bytes_of_longest() {
    EngineOptions options = options_with({}, 4 * kMiB);
    options.ssd_cache.reset();
    const auto engine = start(options);
    (void)run(*engine, request_of(kLongest));
    return engine->stats().prompt_cache.bytes;
  }

  static constexpr int kAnswer = 6;
  static constexpr int kLongest = 69;
};

// Around the edges of blocks, runs and the goldens' windows of 20.
constexpr int kLengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 19, 20, 21, 31, 32, 33, 40, 64, 100};

TEST_P(DiskMatrixTest, MemoryAndARestartLoseNothing) {
  const auto cold = start_cold();
  std::vector<Collected> answers;
  {
    const auto first = start_with_disk();
    for (const int length : kLengths) {
      answers.push_back(run(*first, request_of(length)));
      const Collected warm = run(*first, request_of(length));
      ASSERT_NO_FATAL_FAILURE(expect_same(warm, answers.back())) << length;
      EXPECT_EQ(warm.finishes[0]->cached_tokens, length - 1);
    }
    EXPECT_EQ(first->stats().ssd_cache->tier.restores, 0U);
  }
  const auto again = start_with_disk();
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    const int length = kLengths[i];
    ASSERT_NO_FATAL_FAILURE(expect_same(answers[i], run(*cold, request_of(length)))) << length;
    const Collected restored = run(*again, request_of(length));
    ASSERT_NO_FATAL_FAILURE(expect_same(restored, answers[i])) << length;
    if (is_found_on_disk(length)) {
      EXPECT_EQ(restored.finishes[0]->cached_tokens, length - 1);
    }

    std::vector<TokenId> next_turn = make_prompt(length, length);
    for (const TokenId id : answers[i].ids()) next_turn.push_back(id);
    for (const TokenId id : {3, 5, 9}) next_turn.push_back(id);
    ASSERT_NO_FATAL_FAILURE(
        expect_same(run(*again, make_scored_request(next_turn, 6)), run(*cold, make_scored_request(next_turn, 6))))
        << length;
  }
  EXPECT_GT(again->stats().ssd_cache->tier.restores, 0U);
  EXPECT_EQ(again->stats().ssd_cache->tier.failed, 0U);
}

TEST_P(DiskMatrixTest, WhatMemoryGivesUpIsOnDisk) {
  constexpr int kEdges[] = {7, 8, 9, 16, 19, 20, 21, 32, 33, 60, kLongest};
  const auto cold = start_cold();
  const auto warm = start_with_disk(bytes_of_longest() * 3 / 2);
  const auto is_in_memory = [&](int length) {
    const auto explanation = warm->explain({.prompt = make_prompt(length, length)});
    return !explanation || explanation->memory_tokens > 0;
  };
  for (const int length : kEdges) {
    (void)run(*warm, request_of(length));
    wait_for_files(*warm);
  }
  for (TokenId first = 34; std::ranges::any_of(kEdges, is_in_memory); ++first) {  // which none of them begins with
    ASSERT_LT(first, 60) << "memory gives nothing up";
    (void)run(*warm, make_request(make_prompt(60, first), 1));
  }
  wait_for_files(*warm);
  EXPECT_EQ(warm->stats().ssd_cache->tier.dropped, 0U);
  for (const int length : kEdges) {
    ASSERT_FALSE(is_in_memory(length)) << length;
    const Collected got = run(*warm, request_of(length));
    ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*cold, request_of(length)))) << length;
    if (is_found_on_disk(length)) {
      EXPECT_EQ(got.finishes[0]->cached_tokens, length - 1);
    }
    wait_for_files(*warm);
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
    (void)run(*start_with_disk(), make_scored_request(shared, 2));
  }
  const auto warm = start_with_disk();
  std::vector<Running> running;
  std::vector<Request> requests;
  for (TokenId i = 0; i < 6; ++i) {
    std::vector<TokenId> prompt = shared;
    for (const TokenId id : {i, i + 7, i}) prompt.push_back(id);
    requests.push_back(make_scored_request(prompt, 9));
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
  const Request request = make_scored_request(make_prompt(100, 3), 6);
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
    const Request request = make_scored_request(make_prompt(60 + i % 6, i % 6), 8);
    ASSERT_NO_FATAL_FAILURE(expect_same(run(*warm, request), run(*cold, request))) << i;
  }
}

TEST_P(DiskEngineTest, AnotherWayToStoreKeysFindsNothing) {
  {
    (void)run(*start_with_disk(), make_scored_request(make_prompt(100, 3), 2));
  }
  auto opened = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam().model);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto other =
      GetParam().kv == kernels::KvQuantization::kOff ? kernels::KvQuantization::k8 : kernels::KvQuantization::kOff;
  const auto engine = start_engine(
      options_with(folder_.path(), 4 * kMiB),
      checkpoint_loader(std::move(*opened), {.num_threads = 2, .kv_quantization = other}, Identity::kOfContents));
  EXPECT_EQ(run(*engine, make_scored_request(make_prompt(100, 3), 2)).finishes[0]->cached_tokens, 0);
}

TEST_P(DiskEngineTest, DamageThatIsNotLookedForFailsOneRequestAtMost) {
  const auto cold = start_cold();
  const Request request = make_scored_request(make_prompt(100, 3), 6);
  {
    (void)run(*start_with_disk(), request);
  }
  EngineOptions trusting = options_with(folder_.path(), 4 * kMiB);
  trusting.ssd_cache->verify = false;
  const auto warm = start(trusting);
  for (const fs::path& path :
       files_in(folder_.path())) {  // headers have up to 4,096 bytes here; halves of ones are NaN
    const std::string ones(fs::file_size(path) - 4096, '\xff');
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file.write(ones.data(), static_cast<std::streamsize>(ones.size()));
  }
  EXPECT_TRUE(run(*warm, request).error) << "logits are no numbers";
  ASSERT_NO_FATAL_FAILURE(expect_same(run(*warm, request), run(*cold, request)));
}

using enum kernels::KvQuantization;

INSTANTIATE_TEST_SUITE_P(Models, DiskEngineTest,
                         testing::Values(DiskCase{"llama_interleaved_linear_rope_4bit"},
                                         DiskCase{"gemma3_text_windows_4bit"}, DiskCase{"gemma4_shared_4bit"},
                                         DiskCase{"qwen3_5_4bit"}, DiskCase{"lfm2_4bit"}, DiskCase{"gpt_oss_mxfp4"},
                                         DiskCase{"llama_interleaved_linear_rope_4bit", k8},
                                         DiskCase{"gemma3_text_windows_4bit", k8},
                                         DiskCase{"gemma3_text_windows_4bit", k4}, DiskCase{"qwen3_5_4bit", k8}),
                         case_name);

std::vector<DiskCase> all_cases() {
  std::vector<DiskCase> cases;
  for (const char* model : {"llama_interleaved_linear_rope_4bit", "gemma3_text_windows_4bit", "gemma4_shared_4bit",
                            "qwen3_5_4bit", "lfm2_4bit", "gpt_oss_mxfp4"}) {
    for (const auto kv : {kOff, k8, k4}) cases.push_back({model, kv});
  }
  // Whose folders have a kv_config.json in which layers differ.
  for (const char* model : {"llama_wide_heads_4bit", "gemma3_text_windows_4bit", "gemma4_wide_heads_4bit",
                            "qwen3_5_wide_heads_4bit", "gpt_oss_wide_heads_mxfp4"}) {
    cases.push_back({model, kConfig});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, DiskMatrixTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace redpoll::engine
