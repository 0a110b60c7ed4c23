// Packed keys and values in the engine, on real architectures with this machine's kernels: a request gets, to the bit
// of its logprobs, alone what it gets in a batch, preempted, forked, and warm from the prompt cache; and what
// --kv-quant config says of each layer is done.
#include <mlx/device.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "unit/checkpoint/builders.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {
namespace {

namespace fs = std::filesystem;
using checkpoint::testing::TemporaryFolder;
using kernels::KvQuantization;
using test::Collected;
using test::expect_same;
using test::make_prompt;
using test::make_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

fs::path golden_folder(const std::string& name) { return fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / name; }

Result<std::unique_ptr<Engine>> try_engine(const fs::path& folder, KvQuantization kv, EngineOptions options = {}) {
  auto opened = checkpoint::open_checkpoint(folder);
  EXPECT_TRUE(opened) << opened.error().message;
  options.block_tokens = 8;
  options.context_length = 96;
  return Engine::start(options, checkpoint_loader(std::move(*opened), {.num_threads = 2, .kv_quantization = kv}));
}

std::size_t bytes_of_blocks(const EngineStats& stats) {
  std::size_t bytes = 0;
  for (const KvGroupStats& group : stats.kv_groups) {
    if (group.kind == cache::CacheKind::kAttention) bytes += group.bytes_per_block;
  }
  return bytes;
}

class PackedKvEngineTest : public testing::TestWithParam<std::tuple<std::string, KvQuantization>> {
 protected:
  static KvQuantization kv() { return std::get<1>(GetParam()); }
  static std::unique_ptr<Engine> start(const EngineOptions& options) {
    auto engine = try_engine(golden_folder(std::get<0>(GetParam())), kv(), options);
    EXPECT_TRUE(engine) << engine.error().message;
    return std::move(*engine);
  }

  static Request make(int index) {
    Request request = make_request(make_prompt(3 + index * 9, index), 24);
    request.num_top_logprobs = 2;
    request.sampling.temperature = index % 2 == 0 ? 0.0F : 1.0F;
    request.sampling.seed = 7;
    return request;
  }
};

TEST_P(PackedKvEngineTest, GivesTheSameBitsHoweverItIsScheduled) {
  constexpr int kNumRequests = 6;
  std::vector<Collected> alone;
  EngineOptions tight{.max_batch = 4, .step_tokens = 13};
  {
    const auto engine = start({.max_batch = 1, .step_tokens = 512, .prompt_cache_bytes = 0});
    for (int i = 0; i < kNumRequests; ++i) alone.push_back(run(*engine, make(i)));
    // Room for one request and a third of another.
    std::size_t one_request = 0;
    for (const KvGroupStats& group : engine->stats().kv_groups) {
      int num_blocks = group.window == 0 ? 96 / 8 : cache::blocks_spanned(group.window, 8);
      if (group.kind == cache::CacheKind::kRecurrent) num_blocks = 3;
      one_request += static_cast<std::size_t>(num_blocks) * group.bytes_per_block;
    }
    tight.memory_budget_bytes = engine->stats().weight_bytes + one_request / 3 * 4 + start(tight)->stats().step_bytes;
  }
  const auto engine = start(tight);
  std::vector<Running> together;
  for (int i = 0; i < kNumRequests; ++i) together.push_back(submit(*engine, make(i)));
  for (int i = 0; i < kNumRequests; ++i) {
    const auto& running = together[static_cast<std::size_t>(i)];
    ASSERT_TRUE(running.events->wait_until_done());
    ASSERT_NO_FATAL_FAILURE(expect_same(running.events->collected(), alone[static_cast<std::size_t>(i)])) << i;
  }
  const EngineStats stats = engine->stats();
  EXPECT_TRUE(stats.kv_groups.size() > 1 || stats.preemptions > 0);
}

// Lengths around the edges of blocks and of the goldens' windows of 20.
TEST_P(PackedKvEngineTest, WarmAndForkedAnswersHaveTheBitsOfColdOnes) {
  const auto cold = start({.max_batch = 2, .step_tokens = 13, .memory_budget_bytes = 64 * kMiB});
  const auto warm =
      start({.max_batch = 4, .step_tokens = 13, .memory_budget_bytes = 64 * kMiB, .prompt_cache_bytes = 4 * kMiB});
  for (const int length : {1, 7, 8, 9, 16, 19, 20, 21, 40}) {
    Request request = make_request(make_prompt(length, length), 6);
    request.num_top_logprobs = 2;
    const Collected want = run(*cold, request);
    ASSERT_NO_FATAL_FAILURE(expect_same(run(*warm, request), want)) << length;
    const Collected again = run(*warm, request);
    ASSERT_NO_FATAL_FAILURE(expect_same(again, want)) << length;
    EXPECT_EQ(again.finishes[0]->cached_tokens, length - 1);
    request.num_choices = 3;
    const Collected forked = run(*warm, request);
    ASSERT_NO_FATAL_FAILURE(expect_same(forked, want)) << length;
    EXPECT_EQ(forked.ids(2), want.ids());
  }
}

TEST_P(PackedKvEngineTest, SaysHowKeysAndValuesAreStoredAndCountsTheirBytes) {
  const EngineStats packed = start({})->stats();
  EXPECT_EQ(packed.kv_scheme, kv() == KvQuantization::k8 ? "q8" : "q4");
  const auto plain = try_engine(golden_folder(std::get<0>(GetParam())), KvQuantization::kOff);
  EXPECT_EQ((*plain)->stats().kv_scheme, "f16");
  EXPECT_LT(bytes_of_blocks(packed), bytes_of_blocks((*plain)->stats()));
}

INSTANTIATE_TEST_SUITE_P(Models, PackedKvEngineTest,
                         testing::Combine(testing::Values("llama_interleaved_linear_rope_4bit",
                                                          "gemma3_text_windows_4bit", "gemma4_shared_4bit",
                                                          "qwen3_5_4bit", "lfm2_4bit", "gpt_oss_mxfp4"),
                                          testing::Values(KvQuantization::k8, KvQuantization::k4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) == KvQuantization::k8 ? "_q8" : "_q4");
                         });

/// A golden's folder with a kv_config.json of its own.
class KvConfigEngineTest : public testing::Test {
 protected:
  KvConfigEngineTest() {
    // Three of its layers are recurrent, one attends, with heads of 24.
    for (const auto& entry : fs::directory_iterator(golden_folder("qwen3_5_4bit"))) {
      fs::copy(entry.path(), folder_.path() / entry.path().filename());
    }
  }

  std::string refusal(const std::string& config) {
    folder_.write("kv_config.json", config);
    const auto engine = try_engine(folder_.path(), KvQuantization::kConfig);
    return engine ? "none" : engine.error().message;
  }

  TemporaryFolder folder_;
};

TEST_F(KvConfigEngineTest, RefusesByFileAndFieldWhatALayerCannotBe) {
  const std::string file = "--kv-quant config: " + (folder_.path() / "kv_config.json").string() + ": ";
  const std::string no_layer =
      "'[0].layer_idx': expected one of the model's 4 layers, from 0 on, that has keys and values of its own, got ";
  EXPECT_EQ(refusal(R"([{"layer_idx": 4, "bits": 8, "group_size": 24}])"), file + no_layer + "4");
  EXPECT_EQ(refusal(R"([{"layer_idx": 0, "bits": 8, "group_size": 24}])"), file + no_layer + "0");
  EXPECT_EQ(refusal(R"([{"layer_idx": 3, "bits": 6, "group_size": 24}])"),
            file + "'[0].bits': expected bits of 4 or 8, got 6");
  EXPECT_THAT(refusal(R"([{"layer_idx": 3, "bits": 8, "group_size": 64}])"), StartsWith(file + "'[0].group_size': "));
  EXPECT_THAT(refusal("[{}]"), HasSubstr("'[0].layer_idx' is missing"));
  fs::remove(folder_.path() / "kv_config.json");
  const auto missing = try_engine(folder_.path(), KvQuantization::kConfig);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("kv_config.json"));
  EXPECT_EQ(missing.error().param, "kv-quant");
}

TEST_F(KvConfigEngineTest, PacksTheLayersThatAreListed) {
  folder_.write("kv_config.json", R"([{"layer_idx": 3, "bits": 4, "group_size": 24}])");
  const auto engine = try_engine(folder_.path(), KvQuantization::kConfig);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->stats().kv_scheme, "q4");
  folder_.write("kv_config.json", "[]");
  EXPECT_EQ((*try_engine(folder_.path(), KvQuantization::kConfig))->stats().kv_scheme, "f16");
}

TEST(KvConfigTest, LayersMayDiffer) {
  TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(golden_folder("llama_interleaved_linear_rope_4bit"))) {
    fs::copy(entry.path(), folder.path() / entry.path().filename());
  }
  folder.write("kv_config.json", R"([{"layer_idx": 1, "bits": 8, "group_size": 16}])");
  const auto engine = try_engine(folder.path(), KvQuantization::kConfig);
  ASSERT_TRUE(engine) << engine.error().message;
  EXPECT_EQ((*engine)->stats().kv_scheme, "mixed");
  EXPECT_FALSE(run(**engine, make_request(make_prompt(20, 3), 8)).error);
}

}  // namespace
}  // namespace redpoll::engine
