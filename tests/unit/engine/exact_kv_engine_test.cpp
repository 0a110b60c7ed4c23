// Packed keys and values of the exact tier in the engine: mlx-optiq's answer in a batch and in each of several choices,
// the bits of it again after a preemption, and a namespace of its own.
#include <mlx/device.h>

#include <filesystem>
#include <set>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "engine/model_runner.h"
#include "unit/engine/engine_fixture.h"
#include "unit/models/golden.h"

namespace redpoll::engine {
namespace {

using kernels::KvQuantization;
using test::Collected;
using test::expect_same;
using test::kGoldens;
using test::make_prompt;
using test::make_request;
using test::make_scored_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;

constexpr int kMaxBatch = 3;

kernels::KernelOptions exact_kernels(KvQuantization kv) { return {.exact = true, .kv_quantization = kv}; }

EngineOptions exact_options() {
  return {.max_batch = kMaxBatch,
          .step_tokens = 2 * kernels::kExactPromptChunk + kMaxBatch,
          .exact = true,
          .block_tokens = 8,
          .context_length = 96};
}

checkpoint::Checkpoint open_golden(const std::string& name) {
  auto opened = checkpoint::open_checkpoint(kGoldens / name);
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(*opened);
}

std::string scheme_name(KvQuantization kv) {
  if (kv == KvQuantization::kConfig) return "config";
  return kv == KvQuantization::k8 ? "8" : "4";
}

bool on_cpu() { return mlx::core::default_device() == mlx::core::Device::cpu; }

class ExactKvEngineTest : public testing::TestWithParam<std::tuple<std::string, KvQuantization>> {
 protected:
  void SetUp() override {
    if (!on_cpu()) GTEST_SKIP() << "a GPU refuses codes in the exact tier";
  }
  static KvQuantization kv() { return std::get<1>(GetParam()); }
  static std::unique_ptr<Engine> start(const EngineOptions& options) {
    return start_engine(options, checkpoint_loader(open_golden(std::get<0>(GetParam())), exact_kernels(kv())));
  }
};

TEST_P(ExactKvEngineTest, GivesMlxOptiqsAnswerInABatchAndToEveryChoice) {
  const auto folder = kGoldens / std::get<0>(GetParam());
  const auto tokens = test::values_of<TokenId>(*test::read_tensors(folder / "expected.safetensors").read("tokens"));
  const auto answer = test::values_of<TokenId>(
      *test::read_tensors(folder / ("exact_kv_" + scheme_name(kv()) + ".safetensors")).read("answer"));
  const auto engine = start(exact_options());
  std::vector<Running> together;
  for (int i = 0; i < 4; ++i) {
    together.push_back(submit(*engine, i == 1 ? make_request(tokens, static_cast<int>(answer.size()))
                                              : make_request(make_prompt(3 + i * 9, i), 24)));
  }
  for (const Running& running : together) ASSERT_TRUE(running.events->wait_until_done());
  EXPECT_EQ(together[1].events->collected().ids(), answer);

  Request several = make_request(tokens, static_cast<int>(answer.size()));
  several.num_choices = 3;
  const Collected choices = run(*engine, several);
  for (std::size_t choice = 0; choice < 3; ++choice) EXPECT_EQ(choices.ids(choice), answer) << choice;
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExactKvEngineTest,
    testing::Combine(testing::Values("llama_wide_heads_4bit", "qwen3_5_wide_heads_4bit", "gemma3_text_windows_4bit",
                                     "gemma4_wide_heads_4bit", "gpt_oss_wide_heads_mxfp4"),
                     testing::Values(KvQuantization::k8, KvQuantization::k4, KvQuantization::kConfig)),
    [](const auto& info) { return std::get<0>(info.param) + "_" + scheme_name(std::get<1>(info.param)); });

class ExactKvTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_cpu()) GTEST_SKIP() << "a GPU refuses codes in the exact tier";
  }
};

TEST_F(ExactKvTest, IsComputedAgainAfterAPreemption) {
  const auto start = [](const EngineOptions& options) {
    return start_engine(options,
                        checkpoint_loader(open_golden("llama_wide_heads_4bit"), exact_kernels(KvQuantization::k4)));
  };
  const auto make = [](int index) { return make_scored_request(make_prompt(20 + index * 9, index), 40); };
  std::vector<Collected> alone;
  EngineOptions tight = exact_options();
  {
    const auto engine = start(exact_options());
    for (int i = 0; i < 4; ++i) alone.push_back(run(*engine, make(i)));
    const EngineStats stats = engine->stats();
    const std::size_t one_context = std::size_t{96 / 8} * stats.kv_groups[0].bytes_per_block;
    tight.memory_budget_bytes = stats.weight_bytes + stats.step_bytes + one_context / 3 * 4;
  }
  const auto engine = start(tight);
  std::vector<Running> together;
  for (int i = 0; i < 4; ++i) together.push_back(submit(*engine, make(i)));
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(together[i].events->wait_until_done());
    ASSERT_NO_FATAL_FAILURE(expect_same(together[i].events->collected(), alone[i])) << i;
  }
  EXPECT_GT(engine->stats().preemptions, 0);
}

TEST_F(ExactKvTest, HasASchemeAndANamespaceOfItsOwn) {
  const auto identity = [](const kernels::KernelOptions& options) {
    return checkpoint_loader(open_golden("llama_wide_heads_4bit"), options, Identity::kOfContents)()->identity;
  };
  const std::vector<std::string> all{identity({.exact = true}), identity(exact_kernels(KvQuantization::k8)),
                                     identity(exact_kernels(KvQuantization::k4)),
                                     identity(exact_kernels(KvQuantization::kConfig)),
                                     identity({.kv_quantization = KvQuantization::k8})};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());

  const auto stats = [](KvQuantization kv) {
    return start_engine(exact_options(), checkpoint_loader(open_golden("llama_wide_heads_4bit"), exact_kernels(kv)))
        ->stats();
  };
  EXPECT_EQ(stats(KvQuantization::k8).kv_scheme, "q8");
  EXPECT_EQ(stats(KvQuantization::k4).kv_scheme, "q4");
  EXPECT_EQ(stats(KvQuantization::kConfig).kv_scheme, "mixed");
  // Two layers of 4 heads of 128, keys and values, 8 tokens; two groups each with scale and bias in the type of the
  // model.
  constexpr std::size_t kHeads = std::size_t{2} * 2 * 4 * 8;
  EXPECT_EQ(stats(KvQuantization::k8).kv_groups[0].bytes_per_block, kHeads * (128 + 2 * 2 * 2));
  EXPECT_EQ(stats(KvQuantization::k4).kv_groups[0].bytes_per_block, kHeads * (64 + 2 * 2 * 2));
}

/// They are as large as all of the prompt's floats, and nobody would see them again.
TEST_F(ExactKvTest, WhatWasSeenUnpackedDoesNotOutliveItsPass) {
  auto loaded = checkpoint_loader(open_golden("llama_wide_heads_4bit"), exact_kernels(KvQuantization::k8))();
  ASSERT_TRUE(loaded) << loaded.error().message;
  ModelRunner runner(std::move(*loaded), {8}, test::kBlockTokens, RowsOfAPass::kOne);
  kernels::RaggedBatch batch;
  test::FedSequence sequence{make_prompt(20, 1), 0, test::make_blocks(20, 0, 1)};
  test::feed(batch, sequence, 20);
  (void)runner.run(batch);
  for (const kernels::KvStorage& layer : runner.kv().layers()) {
    EXPECT_FALSE(layer.unpacked_keys);
    EXPECT_FALSE(layer.unpacked_values);
  }
}

TEST_F(ExactKvTest, WhatIsSeenUnpackedIsPartOfAStepsMemory) {
  const auto step_bytes = [](KvQuantization kv) {
    return start_engine(exact_options(), checkpoint_loader(open_golden("llama_wide_heads_4bit"), exact_kernels(kv)))
        ->stats()
        .step_bytes;
  };
  // A pass has the 96 tokens of a context at most: two layers of 4 heads of 128, keys and values, in two bytes.
  const std::size_t unpacked = std::size_t{96} * 2 * 2 * 4 * 128 * 2;
  const std::size_t floats = step_bytes(KvQuantization::kOff);
  EXPECT_EQ(step_bytes(KvQuantization::k8), floats + unpacked);
  EXPECT_EQ(step_bytes(KvQuantization::k4), floats + unpacked);
}

/// They would be computed in other chunks than the same prompt without them, and so would its answer.
TEST_F(ExactKvTest, RefusesLogprobsOfPrompts) {
  const auto engine = start_engine(
      exact_options(), checkpoint_loader(open_golden("llama_wide_heads_4bit"), exact_kernels(KvQuantization::k8)));
  Request request = make_scored_request(make_prompt(20, 1), 4);
  EXPECT_FALSE(run(*engine, request).error);
  request.prompt_logprobs = true;
  request.id = engine->next_request_id();
  request.events = std::make_shared<EventQueue>(nullptr);
  const Status refused = engine->submit(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().param, "echo");
  EXPECT_EQ(refused.error().message,
            "a server with --exact and --kv-quant gives no logprobs of the prompt: the answer would not be the one "
            "without them; leave out echo or logprobs, or start it with one of the two flags alone");
}

}  // namespace
}  // namespace redpoll::engine
