// The disk tier with the kernels that a GPU has too: on a GPU, where blocks are copied from and to memory of its own,
// and on a CPU. There a token's bits depend on how many are computed together, so all is asked for in such a way that
// the same are: prompts have one token more than whole steps, and that one is what is computed of a prompt that is
// cached.
#include <mlx/device.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "unit/engine/disk_fixture.h"

namespace redpoll::engine {
namespace {

struct DeviceCase {
  std::string model;
  kernels::KvQuantization kv = kernels::KvQuantization::kOff;
  models::mx::Device::DeviceType device = models::mx::Device::cpu;
};

void PrintTo(const DeviceCase& one, std::ostream* out) {
  *out << name_of_case(one.model, one.kv) << (one.device == models::mx::Device::cpu ? " on a CPU" : " on a GPU");
}

class DiskDeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    if (models::mx::default_device() != GetParam().device) GTEST_SKIP() << "another device computes here";
    if (GetParam().device == models::mx::Device::cpu) return;
    // MLX compiles kernels when they are first used, which may take minutes.
    const auto engine = start_cold();
    for (const int num_tokens : {1, 40}) {
      const Running first = submit(*engine, make_scored_request(make_prompt(num_tokens, 1), 4));
      ASSERT_TRUE(first.events->wait_until_done(std::chrono::minutes(4)));
    }
  }

  static std::unique_ptr<Engine> start(const EngineOptions& options) {
    auto opened = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam().model);
    EXPECT_TRUE(opened) << opened.error().message;
    return start_engine(options,
                        checkpoint_loader(std::move(*opened), {.reference = true, .kv_quantization = GetParam().kv},
                                          Identity::kOfContents));
  }
  std::unique_ptr<Engine> start_with_disk(std::size_t prompt_cache_bytes = 8 * kMiB) const {
    return start(options_with(folder_.path(), prompt_cache_bytes));
  }
  static std::unique_ptr<Engine> start_cold() {
    EngineOptions options = options_with({}, 0);
    options.ssd_cache.reset();
    return start(options);
  }

  static std::unique_ptr<Engine> start_with_memory() {
    EngineOptions options = options_with({}, 8 * kMiB);
    options.ssd_cache.reset();
    return start(options);
  }

  /// Of a prompt of 66 tokens and its answer in the prompt cache.
  static std::size_t bytes_of_one() {
    const auto engine = start_with_memory();
    (void)run(*engine, make_scored_request(make_prompt(66, 0), 8));
    return engine->stats().prompt_cache.bytes;
  }

  TemporaryFolder folder_;
};

/// Whole steps of 13 tokens and one more; longer than the goldens' windows of 20, so that all kinds of layers leave a
/// snapshot one token before the end.
constexpr int kLengths[] = {27, 40, 53, 92};

Request request_of(int length) { return make_scored_request(make_prompt(length, length), 6); }

Request next_turn(int length, const Collected& answer) {
  std::vector<TokenId> tokens = make_prompt(length, length);
  for (const TokenId id : answer.ids()) tokens.push_back(id);
  for (const TokenId id : {3, 5, 9}) tokens.push_back(id);
  return make_scored_request(std::move(tokens), 6);
}

TEST_P(DiskDeviceTest, MemoryDiskAndRestartGiveTheBitsOfAColdAnswer) {
  const auto cold = start_cold();
  std::vector<Collected> answers;
  std::vector<Collected> next_answers;
  {
    const auto first = start_with_disk();
    for (const int length : kLengths) {
      answers.push_back(run(*cold, request_of(length)));
      for (const int cached : {0, length - 1}) {
        const Collected got = run(*first, request_of(length));
        ASSERT_NO_FATAL_FAILURE(expect_same(got, answers.back())) << length;
        ASSERT_EQ(got.finishes[0]->cached_tokens, cached);
      }
    }
    EXPECT_EQ(first->stats().ssd_cache->tier.restores, 0U);
  }
  {
    const auto again = start_with_disk();
    for (std::size_t i = 0; i < std::size(kLengths); ++i) {
      const Collected restored = run(*again, request_of(kLengths[i]));
      ASSERT_NO_FATAL_FAILURE(expect_same(restored, answers[i])) << kLengths[i];
      EXPECT_EQ(restored.finishes[0]->cached_tokens, kLengths[i] - 1);
      next_answers.push_back(run(*again, next_turn(kLengths[i], answers[i])));
    }
    EXPECT_GT(again->stats().ssd_cache->tier.restores, 0U);
    EXPECT_EQ(again->stats().ssd_cache->tier.failed, 0U);
  }
  const auto in_memory = start_with_memory();
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    (void)run(*in_memory, request_of(kLengths[i]));
    const Collected got = run(*in_memory, next_turn(kLengths[i], answers[i]));
    ASSERT_EQ(got.finishes[0]->cached_tokens, next_answers[i].finishes[0]->cached_tokens);
    ASSERT_NO_FATAL_FAILURE(expect_same(got, next_answers[i])) << "a turn that follows " << kLengths[i];
  }
}

TEST_P(DiskDeviceTest, WhatMemoryGivesUpComesBackWithItsBits) {
  const auto cold = start_cold();
  const auto warm = start_with_disk(3 * bytes_of_one() / 2);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 6; ++i) {
      const Request request = make_scored_request(make_prompt(66, i), 8);
      const Collected got = run(*warm, request);
      wait_for_files(*warm);
      ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*cold, request))) << i;
      if (round == 1) {
        EXPECT_EQ(got.finishes[0]->cached_tokens, 65);
      }
    }
  }
  const EngineStats stats = warm->stats();
  EXPECT_GT(stats.ssd_cache->tier.restores, 0U);
  EXPECT_LE(stats.prompt_cache.bytes, stats.prompt_cache.max_bytes);
}

/// While others generate: copies come after the steps that wrote what they read, and before those that write there
/// next. How many tokens these steps have is up to chance, so what has been copied is then asked for with nobody else
/// there: on the same keys and values, in the same steps, answers have the same bits on a GPU, too.
TEST_P(DiskDeviceTest, CopiesAreInOrderWithTheStepsOfOthers) {
  std::vector<Collected> answers;  // on what was computed, before any of it was copied in
  for (int round = 0; round < 3; ++round) {
    const auto engine = start_with_disk(round == 0 ? 3 * bytes_of_one() : 8 * kMiB);
    for (int i = 0; i < 4; ++i) {
      const Request request = make_scored_request(make_prompt(66, i), 8);
      const Running other = submit(*engine, make_request(make_prompt(20, 30 + i), 40));
      ASSERT_TRUE(other.events->wait_for_tokens(1));
      const Collected got = run(*engine, request);
      ASSERT_FALSE(got.error) << got.error->message;
      EXPECT_EQ(got.finishes[0]->cached_tokens, round == 0 ? 0 : 65);
      ASSERT_TRUE(other.events->wait_until_done());
      ASSERT_FALSE(other.events->collected().error) << other.events->collected().error->message;
      const Collected alone = run(*engine, request);
      EXPECT_EQ(alone.finishes[0]->cached_tokens, 65);
      if (round == 0) answers.push_back(alone);
      ASSERT_NO_FATAL_FAILURE(expect_same(alone, answers[static_cast<std::size_t>(i)])) << round << " " << i;
      if (GetParam().device == models::mx::Device::cpu) {
        ASSERT_NO_FATAL_FAILURE(expect_same(got, run(*start_cold(), request)));
      }
    }
    wait_for_files(*engine);
  }
}

std::string case_name(const testing::TestParamInfo<DeviceCase>& info) {
  return name_of_case(info.param.model, info.param.kv);
}

/// Of every type that keys and values have on a GPU, and of every kind of layer.
std::vector<DeviceCase> cases(models::mx::Device::DeviceType device) {
  std::vector<DeviceCase> cases{{.model = "phi3_f16"},
                                {.model = "llama_bias_llama3_rope"},
                                {.model = "mistral_f32"},
                                {.model = "llama_interleaved_linear_rope_4bit"},
                                {.model = "gemma3_text_windows_4bit"},
                                {.model = "qwen3_5_4bit"},
                                {.model = "lfm2_4bit"},
                                {.model = "gpt_oss_mxfp4"},
                                {.model = "llama_interleaved_linear_rope_4bit", .kv = kernels::KvQuantization::k8},
                                {.model = "gemma3_text_windows_4bit", .kv = kernels::KvQuantization::k4}};
  for (DeviceCase& one : cases) one.device = device;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cpu, DiskDeviceTest, testing::ValuesIn(cases(models::mx::Device::cpu)), case_name);
INSTANTIATE_TEST_SUITE_P(Accelerator, DiskDeviceTest, testing::ValuesIn(cases(models::mx::Device::gpu)), case_name);

}  // namespace
}  // namespace redpoll::engine
