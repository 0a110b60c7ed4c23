// What a model takes and reads, against numbers computed by hand from its config: an affine matrix of b bits in groups
// of 32, with a scale and a bias, takes b / 8 + 2 * 4 / 32 bytes a weight: all that is not packed is float32 once the
// reference kernels have loaded it on a CPU, and so are their keys, values and states. They pad nothing.
#include "engine/fit/fit.h"

#include <gtest/gtest.h>
#include <mlx/device.h>

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/fit/common_machines.h"
#include "engine/model_memory.h"

namespace redpoll::engine {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

ModelFootprint footprint_of_golden(const std::string& model) {
  const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / model;
  auto opened = checkpoint::open_checkpoint(folder);
  EXPECT_TRUE(opened) << opened.error().message;
  auto footprint = footprint_of(*opened, {.reference = true}, 32);
  EXPECT_TRUE(footprint) << footprint.error().message;
  return *footprint;
}

class FootprintTest : public testing::Test {
 protected:
  void SetUp() override {
    if (mlx::core::default_device() != mlx::core::Device::cpu) GTEST_SKIP() << "a GPU keeps other types";
  }
};

// Two layers of q 128 x 64, k and v 64 x 64, o 64 x 128, gate, up and down of 96 x 64: 43,008 weights of six bits, and
// norms of 64 + 64 + 32 + 32. A last norm of 64, a head of 96 x 64 in six bits, a table of 96 x 64 in bfloat16.
TEST_F(FootprintTest, ADenseModelReadsAllButTheRowsOfATableThatIsNotItsHead) {
  const ModelFootprint model = footprint_of_golden("qwen3_untied_6bit");
  const std::size_t layer = 43'008 / 8 * 8 + (64 + 64 + 32 + 32) * 4;
  const std::size_t read = 2 * layer + 64 * 4 + 96 * 64 / 8 * 8;
  EXPECT_EQ(model.weight_bytes, read + 96 * 64 * 4);
  EXPECT_EQ(model.weight_bytes_per_token, read + 64 * 4);
  EXPECT_EQ(model.expert_bytes_per_token, 0U);
  // K and V of two heads of 32 in two layers.
  EXPECT_EQ(sequence_cost(model).bytes_per_token, 2U * 2 * 2 * 32 * 4);
  EXPECT_EQ(sequence_cost(model).fixed_bytes, 0U);
  EXPECT_EQ(reads_of_token(model, 0).all(), read + 64 * 4);
  EXPECT_EQ(reads_of_token(model, 100).cache_bytes, 100U * 1024);
}

// Every third of four layers sees all tokens, the others 20. The table, in eight bits, is the head.
TEST_F(FootprintTest, WindowsAreReadAsFarAsTheyAreFilled) {
  const ModelFootprint model = footprint_of_golden("gemma3_text_windows_4bit");
  const std::size_t layer = 43'008 / 8 * 6 + (4 * 64 + 2 * 32) * 4;
  EXPECT_EQ(model.weight_bytes, 4 * layer + 64 * 4 + 96 * 64 / 8 * 10);
  EXPECT_EQ(model.weight_bytes_per_token, model.weight_bytes) << "a head is read whole";
  const std::size_t one = 2 * 2 * 32 * 4;  // K and V of two heads of 32 in one layer
  EXPECT_EQ(sequence_cost(model).bytes_per_token, one);
  EXPECT_EQ(sequence_cost(model).fixed_bytes, 3 * 64 * one) << "20 tokens stand in two blocks of 32 at most";
  EXPECT_EQ(reads_of_token(model, 10).cache_bytes, 10 * 4 * one);
  EXPECT_EQ(reads_of_token(model, 100).cache_bytes, (100 + 3 * 20) * one);
}

// Three layers with a state, of four heads of 16 x 24 and the last three inputs of a convolution of 160 channels; the
// fourth has attention, with two heads of 24.
TEST_F(FootprintTest, StatesAreReadWholeWhateverTheContext) {
  const ModelFootprint model = footprint_of_golden("qwen3_5_4bit");
  const std::size_t mlp = 3 * 64 * 32;
  const std::size_t recurrent = 4 * 32 + 4 * 32 + 160 * 32 + 96 * 32 + 32 * 96 + mlp;
  const std::size_t recurrent_vectors = 4 + 4 + 4 * 160 + 24 + 32 + 32;
  const std::size_t attention = 192 * 32 + 48 * 32 + 48 * 32 + 32 * 96 + mlp;
  const std::size_t attention_vectors = 32 + 32 + 24 + 24;
  EXPECT_EQ(model.weight_bytes, (3 * recurrent + attention) / 8 * 6 + (3 * recurrent_vectors + attention_vectors) * 4 +
                                    32 * 4 + 96 * 32 / 8 * 10);
  EXPECT_EQ(model.weight_bytes_per_token, model.weight_bytes);
  const std::size_t states = 3 * (4 * 16 * 24 + 3 * 160) * 4;
  EXPECT_EQ(sequence_cost(model).bytes_per_token, 2U * 2 * 24 * 4) << "layers with a state have no keys and values";
  EXPECT_EQ(sequence_cost(model).fixed_bytes, states);
  EXPECT_EQ(reads_of_token(model, 0).cache_bytes, states);
  EXPECT_EQ(reads_of_token(model, 100).cache_bytes, states + 100 * 384);
}

// The second of two layers has four experts of 3 x 32 x 16 in float16, of which three see a token.
TEST_F(FootprintTest, OfExpertsATokenReadsThoseThatItIsSentTo) {
  const ModelFootprint model = footprint_of_golden("qwen3_moe_f16");
  const std::size_t attention = 64 * 32 + 32 * 32 + 32 * 32 + 32 * 64;
  const std::size_t expert = 3 * 32 * 16 * 4;
  const std::size_t others = (2 * attention + 3 * 32 * 32 + 4 * 32 + 2 * (32 + 32 + 16 + 16) + 32 + 96 * 32) * 4;
  EXPECT_EQ(model.weight_bytes, others + 4 * expert);
  EXPECT_EQ(model.weight_bytes_per_token, others + 3 * expert);
  EXPECT_EQ(model.expert_bytes_per_token, 3 * expert);
  EXPECT_EQ(reads_of_token(model, 0).weight_bytes, others);
  EXPECT_EQ(reads_of_token(model, 0).expert_bytes, 3 * expert);
}

// The last two of four layers read what the first two have written. Beside the head there is a table of 96 x 128 in
// eight bits that is only looked up.
TEST_F(FootprintTest, LayersWithoutACacheOfTheirOwnTakeNone) {
  const ModelFootprint model = footprint_of_golden("gemma4_shared_4bit");
  EXPECT_EQ(model.weight_bytes - model.weight_bytes_per_token, 95U * 128 / 8 * 10);
  EXPECT_EQ(sequence_cost(model).bytes_per_token, 2U * 2 * 32 * 4);
  EXPECT_EQ(sequence_cost(model).fixed_bytes, 64U * 2 * 2 * 16 * 4);
}

/// A MiB for each block, and steps that take nothing.
ModelFootprint round_model() {
  return {.model_type = "round",
          .weight_bytes = 60 * kMiB,
          .weight_bytes_per_token = 40 * kMiB,
          .expert_bytes_per_token = 10 * kMiB,
          .groups = {{.window = 0, .bytes_per_block = kMiB}},
          .block_tokens = 32,
          .context_length = 1024,
          .vocab_size = 0,
          .activations_per_token = 0};
}

TEST(FitTest, SaysWhatAContextTakesAndWhatFits) {
  EngineOptions options{.max_batch = 3, .context_length = 640, .memory_budget_bytes = 70 * kMiB};
  const auto tight = find_fit(round_model(), options);
  ASSERT_TRUE(tight);
  EXPECT_FALSE(tight->fits);
  EXPECT_EQ(tight->max_context, 320);
  EXPECT_EQ(tight->context, 640);
  EXPECT_EQ(tight->total_bytes(), (60 + 20) * kMiB);
  EXPECT_EQ(tight->batch_total_bytes(), (60 + 3 * 20) * kMiB);
  EXPECT_EQ(tight->at_start.all(), 40 * kMiB);
  EXPECT_EQ(tight->at_context.all(), (40 + 20) * kMiB);

  options.memory_budget_bytes = 80 * kMiB;
  EXPECT_TRUE(find_fit(round_model(), options)->fits) << "to the byte";
  options.memory_budget_bytes -= 1;
  EXPECT_FALSE(find_fit(round_model(), options)->fits);
}

TEST(FitTest, WithoutAContextItIsTheLongestThatFits) {
  const auto fit = find_fit(round_model(), {.memory_budget_bytes = 70 * kMiB});
  ASSERT_TRUE(fit);
  EXPECT_TRUE(fit->fits);
  EXPECT_EQ(fit->context, 320);
  const auto none = find_fit(round_model(), {.memory_budget_bytes = 50 * kMiB});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->fits);
  EXPECT_EQ(none->max_context, 0);
  EXPECT_EQ(none->context, 1024) << "the model's, so that there are numbers to look at";
  EXPECT_EQ(none->total_bytes(), (60 + 32) * kMiB);
}

TEST(FitTest, SaysHowManySequencesFitAtOnce) {
  EngineOptions options{.max_batch = 3, .context_length = 320, .prompt_cache_bytes = 5 * kMiB};  // ten blocks each
  for (const auto& [budget_mib, num_sequences] : {std::pair{69, 0}, {70, 1}, {79, 1}, {80, 2}, {90, 3}, {200, 3}}) {
    options.memory_budget_bytes = static_cast<std::size_t>(budget_mib) * kMiB;
    const auto fit = find_fit(round_model(), options);
    ASSERT_TRUE(fit);
    EXPECT_EQ(fit->num_sequences, num_sequences) << budget_mib;
    EXPECT_EQ(fit->fits, num_sequences > 0) << budget_mib;
    EXPECT_EQ(fit->prompt_cache_bytes, num_sequences > 0 ? 5 * kMiB : 0U) << budget_mib;
  }
  options.context_length = 32;  // one block
  options.memory_budget_bytes = 62 * kMiB;
  EXPECT_EQ(find_fit(round_model(), options)->num_sequences, 2);
  EXPECT_EQ(find_fit(round_model(), options)->prompt_cache_bytes, 2 * kMiB) << "all that there is";
}

// A window of 64 tokens stands in three blocks, one more is being filled, and a step of 32 tokens takes another.
// Windows get half of the cache at most.
TEST(FitTest, WindowsAndStatesCountAmongWhatFitsAtOnce) {
  ModelFootprint model = round_model();
  model.groups.push_back({.window = 64, .bytes_per_block = kMiB});
  EngineOptions options{.max_batch = 3, .step_tokens = 32, .context_length = 320};
  for (const auto& [cache_mib, num_sequences] : {std::pair{28, 1}, {32, 1}, {33, 2}, {42, 2}, {43, 3}}) {
    options.memory_budget_bytes = static_cast<std::size_t>(60 + cache_mib) * kMiB;
    EXPECT_EQ(find_fit(model, options)->num_sequences, num_sequences) << cache_mib;
  }
  model.groups.back() = {.kind = cache::CacheKind::kRecurrent, .bytes_per_block = 10 * kMiB};
  for (const auto& [cache_mib, num_sequences] : {std::pair{20, 1}, {39, 1}, {40, 2}, {59, 2}, {60, 3}}) {
    options.memory_budget_bytes = static_cast<std::size_t>(60 + cache_mib) * kMiB;
    EXPECT_EQ(find_fit(model, options)->num_sequences, num_sequences) << cache_mib;
  }
}

TEST(FitTest, WhatIsOnItsWayToTheDiskCounts) {
  EngineOptions options{.context_length = 320, .memory_budget_bytes = 80 * kMiB};
  options.ssd_cache = SsdCacheOptions{.directory = "somewhere", .max_queued_bytes = 5 * kMiB};
  const auto fit = find_fit(round_model(), options);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->disk_bytes, 10 * kMiB);
  EXPECT_EQ(fit->total_bytes(), 80 * kMiB);
  EXPECT_EQ(fit->batch_total_bytes(), (60 + 10 + 8 * 10) * kMiB);
  EXPECT_TRUE(fit->fits);
  options.ssd_cache->max_queued_bytes += 1;
  EXPECT_FALSE(find_fit(round_model(), options)->fits);
}

TEST(FitTest, AContextLongerThanTheModelsIsRefused) {
  const auto refused = find_fit(round_model(), {.context_length = 1025});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "expected a context of at most 1024 tokens, which the model was trained for, got 1025");
  EXPECT_EQ(refused.error().param, "context");
}

// The shares of a plain read that were measured: 80 % for weights, 74 % for experts, 63 % for the cache.
TEST(FitTest, SpeedFollowsFromWhatIsRead) {
  EXPECT_DOUBLE_EQ(predicted_tokens_per_s({.weight_bytes = 800'000'000}, 100), 100);
  EXPECT_DOUBLE_EQ(predicted_tokens_per_s({.expert_bytes = 740'000'000}, 100), 100);
  EXPECT_DOUBLE_EQ(predicted_tokens_per_s({.cache_bytes = 630'000'000}, 100), 100);
  EXPECT_DOUBLE_EQ(predicted_tokens_per_s({800'000'000, 740'000'000, 630'000'000}, 300), 100);
}

TEST(FitTest, MachineClassesAreComplete) {
  for (const MachineClass& machine : machine_classes()) {
    EXPECT_GT(machine.read_gb_per_s, 50) << machine.name;
    ASSERT_FALSE(machine.memory_gib.empty()) << machine.name;
    for (const int gib : machine.memory_gib) EXPECT_GE(gib, 8) << machine.name;
  }
}

}  // namespace
}  // namespace redpoll::engine
