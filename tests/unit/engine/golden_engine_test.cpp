// The engine on real architectures with this machine's kernels: what a request gets alone, it gets, to the bit of its
// logprobs, in a batch, with its prompt cut anywhere, and after it was preempted.
#include <mlx/device.h>
#include <mlx/memory.h>

#include <filesystem>
#include <numeric>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "engine/fit/fit.h"
#include "engine/model_memory.h"
#include "unit/engine/engine_fixture.h"
#include "unit/models/golden.h"

namespace redpoll::engine {
namespace {

using test::Collected;
using test::make_prompt;
using test::make_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;

TEST(CheckpointLoaderTest, RoundingThatWouldMeetNoWeightIsRefused) {
  const auto start = [](const std::string& model, std::optional<kernels::Activations> activations) {
    auto opened = checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / model);
    EXPECT_TRUE(opened) << opened.error().message;
    return Engine::start({}, checkpoint_loader(std::move(*opened), {.num_threads = 1, .activations = activations}));
  };
  using enum kernels::Activations;
  EXPECT_TRUE(start("llama_interleaved_linear_rope_4bit", kInt16));
  EXPECT_TRUE(start("llama_interleaved_linear_rope_4bit", kInt8));
  for (const char* model : {"qwen2_f16", "qwen3_untied_6bit"}) {
    EXPECT_TRUE(start(model, kFloat32)) << model;
    EXPECT_TRUE(start(model, std::nullopt)) << model << ": nobody asked for rounding";
    for (const auto& [activations, weights] :
         {std::pair(kInt16, "int16 is for weights of 4 or 8 bits"),
          std::pair(kInt8, "int8 is for weights of 4 or 8 bits in groups of 32 or more")}) {
      const auto refused = start(model, activations);
      ASSERT_FALSE(refused) << model;
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(refused.error().param, "activations");
      EXPECT_EQ(refused.error().message,
                std::string("--activations ") + weights + ", and this model has none; leave it out");
    }
  }
}

class GoldenEngineTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Engine> start(const EngineOptions& options, kernels::KernelOptions kernels = {}) {
    const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam();
    auto opened = checkpoint::open_checkpoint(folder);
    EXPECT_TRUE(opened) << opened.error().message;
    kernels.num_threads = 2;
    return start_engine(options, checkpoint_loader(std::move(*opened), kernels));
  }

  static Request make(int index) {
    Request request = make_request(make_prompt(3 + index * 9, index), 24);
    request.num_top_logprobs = 2;
    request.sampling.temperature = index % 2 == 0 ? 0.0F : 1.0F;
    request.sampling.seed = 7;
    return request;
  }

  static void expect_same(const Collected& got, const Collected& want) {
    ASSERT_EQ(got.ids(), want.ids());
    for (std::size_t i = 0; i < got.tokens[0].size(); ++i) {
      EXPECT_EQ(got.tokens[0][i].logprob, want.tokens[0][i].logprob);
      EXPECT_EQ(got.tokens[0][i].top[1].logprob, want.tokens[0][i].top[1].logprob);
    }
  }
};

TEST_P(GoldenEngineTest, GivesTheSameBitsHoweverItIsScheduled) {
  constexpr int kNumRequests = 6;
  std::vector<Collected> alone;
  std::size_t one_request = 0;  // bytes of a cache that holds one request of 96 tokens
  std::size_t weight_bytes = 0;
  {
    const auto engine = start({.max_batch = 1, .step_tokens = 512, .block_tokens = 8, .context_length = 96});
    const EngineStats stats = engine->stats();
    for (const KvGroupStats& group : stats.kv_groups) {
      int num_blocks = group.window == 0 ? 96 / 8 : cache::blocks_spanned(group.window, 8);
      if (group.kind == cache::CacheKind::kRecurrent) num_blocks = 3;
      one_request += static_cast<std::size_t>(num_blocks) * group.bytes_per_block;
    }
    weight_bytes = stats.weight_bytes;
    for (int i = 0; i < kNumRequests; ++i) alone.push_back(run(*engine, make(i)));
  }
  // Room for one request and a third of another.
  EngineOptions options{.max_batch = 4, .step_tokens = 13, .block_tokens = 8, .context_length = 96};
  options.memory_budget_bytes = weight_bytes + one_request / 3 * 4 + start(options)->stats().step_bytes;
  const auto engine = start(options);
  std::vector<Running> together;
  for (int i = 0; i < kNumRequests; ++i) together.push_back(submit(*engine, make(i)));
  for (int i = 0; i < kNumRequests; ++i) {
    const auto& running = together[static_cast<std::size_t>(i)];
    ASSERT_TRUE(running.events->wait_until_done());
    ASSERT_FALSE(running.events->collected().error) << running.events->collected().error->message;
    ASSERT_NO_FATAL_FAILURE(expect_same(running.events->collected(), alone[static_cast<std::size_t>(i)])) << i;
  }
  const EngineStats stats = engine->stats();
  // Where windows or states are to be had beforehand, as few run as there is room for.
  EXPECT_TRUE(stats.kv_groups.size() > 1 || stats.preemptions > 0);
  EXPECT_EQ(stats.blocks_used, 0);
}

TEST_P(GoldenEngineTest, ChoicesThatShareAPromptGetTheBitsOfOneThatDoesNot) {
  const auto engine = start({.max_batch = 4, .step_tokens = 13, .block_tokens = 8, .context_length = 96});
  for (const int index : {2, 5}) {
    Request request = make(index);
    const Collected alone = run(*engine, request);
    request.num_choices = 3;
    const Collected together = run(*engine, request);
    ASSERT_FALSE(together.error) << together.error->message;
    ASSERT_NO_FATAL_FAILURE(expect_same(together, alone)) << index;  // the first choice
    if (request.sampling.temperature == 0) {
      EXPECT_EQ(together.ids(2), alone.ids());
    }
  }
  EXPECT_EQ(engine->stats().blocks_used, 0);
}

TEST_P(GoldenEngineTest, IsLookedAtAsItIsLoaded) {
  const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam();
  auto opened = checkpoint::open_checkpoint(folder);
  ASSERT_TRUE(opened) << opened.error().message;
  const EngineOptions options{.max_batch = 4, .memory_budget_bytes = std::size_t{64} << 20U};
  const auto outlook = look_at(*opened, {.num_threads = 1}, options);
  ASSERT_TRUE(outlook) << outlook.error().message;
  const EngineStats stats = start(options)->stats();
  EXPECT_EQ(std::accumulate(outlook->plan.num_blocks.begin(), outlook->plan.num_blocks.end(), 0), stats.blocks_total);
  EXPECT_EQ(outlook->plan.max_context, stats.context.tokens);
  EXPECT_EQ(outlook->model_context, stats.context.model_tokens);
  EXPECT_EQ(outlook->plan.step_bytes, stats.step_bytes);
  EXPECT_EQ(outlook->weight_bytes, stats.weight_bytes);
}

/// The exact tier keeps the checkpoint's types, in which keys and values, or the scales of their codes, stand.
TEST_P(GoldenEngineTest, TheExactTierIsLookedAtAsItIsLoaded) {
  const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam();
  for (const auto quantization : {kernels::KvQuantization::kOff, kernels::KvQuantization::k8}) {
    SCOPED_TRACE(kernels::kv_quantization_name(quantization));
    auto opened = checkpoint::open_checkpoint(folder);
    ASSERT_TRUE(opened) << opened.error().message;
    const kernels::KernelOptions kernels{.num_threads = 1, .exact = true, .kv_quantization = quantization};
    const EngineOptions options{.max_batch = 4,
                                .step_tokens = 2 * kernels::kExactPromptChunk + 4,
                                .exact = true,
                                .memory_budget_bytes = std::size_t{256} << 20U};
    const auto footprint = footprint_of(*opened, kernels, options.block_tokens);
    const auto outlook = look_at(*opened, kernels, options);
    const auto engine = Engine::start(options, checkpoint_loader(std::move(*opened), kernels));
    if (!engine) {  // experts or packed keys that MLX has no operations for
      ASSERT_FALSE(footprint);
      ASSERT_FALSE(outlook);
      EXPECT_EQ(footprint.error().message, engine.error().message);
      EXPECT_EQ(outlook.error().message, engine.error().message);
      continue;
    }
    ASSERT_TRUE(footprint) << footprint.error().message;
    ASSERT_TRUE(outlook) << outlook.error().message;
    const EngineStats stats = (*engine)->stats();
    ASSERT_EQ(footprint->groups.size(), stats.kv_groups.size());
    for (std::size_t group = 0; group < stats.kv_groups.size(); ++group) {
      EXPECT_EQ(footprint->groups[group].bytes_per_block, stats.kv_groups[group].bytes_per_block) << group;
    }
    EXPECT_EQ(outlook->weight_bytes, stats.weight_bytes);
    EXPECT_EQ(outlook->plan.step_bytes, stats.step_bytes);
    EXPECT_EQ(outlook->plan.max_context, stats.context.tokens);
    EXPECT_EQ(std::accumulate(outlook->plan.num_blocks.begin(), outlook->plan.num_blocks.end(), 0), stats.blocks_total);
  }
}

/// What `redpoll fit` says of a checkpoint is what an engine with the same options does, from budgets that hold nothing
/// to one that holds every context.
TEST_P(GoldenEngineTest, FitsAsItIsSaidTo) {
  const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam();
  auto opened = checkpoint::open_checkpoint(folder);
  ASSERT_TRUE(opened) << opened.error().message;
  EngineOptions options{.max_batch = 2, .step_tokens = 16, .prompt_cache_bytes = std::size_t{32} << 10U};
  const auto footprint = footprint_of(*opened, {.num_threads = 1}, options.block_tokens);
  ASSERT_TRUE(footprint) << footprint.error().message;
  const std::size_t without_cache = memory_request(*footprint, options).step_bytes + footprint->weight_bytes;
  int num_contexts = 0;
  int last_context = 0;
  for (std::size_t cache = 0; cache < 10; ++cache) {
    options.memory_budget_bytes = without_cache - 1 + cache * cache * (std::size_t{4} << 10U);
    const auto fit = find_fit(*footprint, options);
    ASSERT_TRUE(fit) << fit.error().message;
    auto reopened = checkpoint::open_checkpoint(folder);
    const auto engine = Engine::start(options, checkpoint_loader(std::move(*reopened), {.num_threads = 1}));
    ASSERT_EQ(fit->fits, engine.has_value()) << options.memory_budget_bytes;
    EXPECT_EQ(fit->max_context, engine ? (*engine)->stats().context.tokens : 0) << options.memory_budget_bytes;
    num_contexts += fit->max_context != last_context ? 1 : 0;
    last_context = fit->max_context;
  }
  EXPECT_GE(num_contexts, 2) << "budgets that tell a wrong answer from a right one";
  EXPECT_EQ(last_context, footprint->context_length);
}

// Beside others, whose prompts come in the same steps.
TEST_P(GoldenEngineTest, TheExactTierGivesMlxLmsAnswerInABatchToo) {
  if (mlx::core::default_device() != mlx::core::Device::cpu) GTEST_SKIP() << "the files were made on a CPU";
  const auto folder = test::kGoldens / GetParam();
  if (GetParam() == "qwen3_5_moe_bf16" || GetParam() == "gemma4_experts_bf16") {
    GTEST_SKIP() << "MLX does not multiply their experts on a CPU";
  }
  const auto tokens = test::values_of<TokenId>(*test::read_tensors(folder / "expected.safetensors").read("tokens"));
  const auto answer = test::values_of<TokenId>(*test::read_tensors(folder / "exact.safetensors").read("answer"));
  const auto engine = start({.max_batch = 3,
                             .step_tokens = 2 * kernels::kExactPromptChunk + 3,
                             .exact = true,
                             .block_tokens = 8,
                             .context_length = 96},
                            {.exact = true});
  std::vector<Running> together;
  for (int i = 0; i < 4; ++i) {
    together.push_back(submit(*engine, i == 1 ? make_request(tokens, static_cast<int>(answer.size())) : make(i)));
  }
  for (const Running& running : together) ASSERT_TRUE(running.events->wait_until_done());
  EXPECT_EQ(together[1].events->collected().ids(), answer);

  // In a cache of one short sequence, where a window is all there is.
  const auto alone = start({.max_batch = 1,
                            .step_tokens = 2 * kernels::kExactPromptChunk + 1,
                            .exact = true,
                            .block_tokens = 8,
                            .context_length = 96},
                           {.exact = true});
  ASSERT_TRUE(alone);
  EXPECT_EQ(run(*alone, make_request(tokens, 5)).ids(), std::vector(answer.begin(), answer.begin() + 5));
}

/// Stock operations are lazy: what a step leaves unevaluated must not pile up from step to step (user case 61).
TEST_P(GoldenEngineTest, ReferenceKernelsAnswerTheSameAndKeepNothing) {
  const auto engine =
      start({.max_batch = 1, .step_tokens = 64, .block_tokens = 8, .context_length = 96}, {.reference = true});
  const auto fast = start({.max_batch = 1, .step_tokens = 64, .block_tokens = 8, .context_length = 96},
                          {.activations = kernels::Activations::kFloat32, .kv_type = kernels::KvType::kF32});
  Request request = make_request(make_prompt(8, 3), 8);
  (void)run(*engine, request);
  const std::size_t after_few_steps = mlx::core::get_active_memory();
  request.max_tokens = 80;
  const Collected got = run(*engine, request);
  EXPECT_LE(mlx::core::get_active_memory(), after_few_steps + 64 * 1024);
  EXPECT_EQ(got.ids(), run(*fast, request).ids());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenEngineTest,
                         testing::Values("llama_interleaved_linear_rope_4bit", "qwen3_untied_6bit", "qwen2_f16",
                                         "gemma2_capped", "gemma3_text_windows_4bit", "smollm3_4bit", "qwen3_moe_4bit",
                                         "qwen3_5_4bit", "qwen3_5_moe_bf16", "lfm2_4bit", "gpt_oss_mxfp4",
                                         "gemma4_shared_4bit", "gemma4_experts_bf16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace redpoll::engine
