#include "bench/engine_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "bench/engine_streams.h"
#include "support/scripted_model.h"

namespace redpoll::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Steps must not be over before the thread that counts tokens has been woken: on a busy machine that takes a while.
void step_of_two_milliseconds(const kernels::RaggedBatch&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

struct Script {
  std::size_t memory_budget_bytes = std::size_t{16} << 20U;
  int context_length = 1024;
  std::function<void(const kernels::RaggedBatch&)> before_step = step_of_two_milliseconds;
};

server::ServedModel scripted(const EngineBenchOptions& options, const Script& script = {}) {
  engine::EngineOptions engine_options;
  engine_options.max_batch = 4;
  engine_options.step_tokens = options.engine.step_tokens;
  engine_options.memory_budget_bytes = script.memory_budget_bytes;
  auto engine = engine::Engine::start(engine_options, test::scripted_loader({.context_length = script.context_length,
                                                                             .before_step = script.before_step}));
  EXPECT_TRUE(engine) << engine.error().message;
  server::ServedModel model;
  model.id = "scripted";
  model.engine = *std::move(engine);
  return model;
}

EngineBenchOptions small_options() {
  EngineBenchOptions options;
  options.engine.step_tokens = 32;
  options.prefills = {8, 70};
  options.depths = {0, 40};
  options.batches = {1, 3};
  options.decode_tokens = 5;
  options.repetitions = 2;
  return options;
}

TEST(EngineBench, ReportsAFigureForEachLengthAndForEachDepthWithEachBatch) {
  const EngineBenchOptions options = small_options();
  const server::ServedModel model = scripted(options);
  std::string progress;
  const auto report = measure_engine(model, options, [&](std::string_view line) { progress += line; });
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->prefill.size(), 2U);
  EXPECT_EQ(report->prefill[1].tokens, 70);
  ASSERT_EQ(report->decode.size(), 4U);
  EXPECT_EQ(report->decode[3].depth, 40);
  EXPECT_EQ(report->decode[3].batch, 3);
  for (const DecodeFigure& figure : report->decode) {
    EXPECT_GT(figure.tokens_per_s.min, 0);
    EXPECT_LE(figure.tokens_per_s.min, figure.tokens_per_s.median);
    EXPECT_LE(figure.tokens_per_s.median, figure.tokens_per_s.max);
  }
  EXPECT_THAT(progress, HasSubstr("decode at depth 40, batch 3"));
  const std::string text = to_text(*report);
  EXPECT_THAT(text, HasSubstr("\ndecode at depth  batch"));
  EXPECT_THAT(text, HasSubstr("repetitions"));
  const json::object object = to_json(*report);
  EXPECT_EQ(object.at("conditions").at("model").as_string(), "scripted");
  EXPECT_EQ(object.at("decode").as_array().size(), 4U);
}

TEST(EngineBench, LeavesTheEngineIdle) {
  const EngineBenchOptions options = small_options();
  const server::ServedModel model = scripted(options);
  ASSERT_TRUE(measure_engine(model, options, [](std::string_view) {}));
  const engine::EngineStats stats = model.engine->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.blocks_used, 0);
}

// Steps of a known length: two streams generate two tokens each 4 ms, and 70 tokens take three steps.
TEST(EngineBench, RatesFollowFromTheLengthOfAStep) {
  using std::chrono::milliseconds;
  EngineBenchOptions options = small_options();
  options.prefills = {70};
  options.depths = {0};
  options.batches = {2};
  options.decode_tokens = 20;
  const server::ServedModel model =
      scripted(options, {.before_step = [](const auto&) { std::this_thread::sleep_for(milliseconds(4)); }});
  const auto report = measure_engine(model, options, [](std::string_view) {});
  ASSERT_TRUE(report) << report.error().message;
  // A step takes longer than the sleep, so only one side is sharp.
  EXPECT_GE(report->decode[0].median_step_ms, 3.9);
  EXPECT_LE(report->decode[0].tokens_per_s.max, 2 / 0.0039);
  // The one is over whole runs, the other over steps: some that are held up move them apart.
  EXPECT_NEAR(report->decode[0].tokens_per_s.median * report->decode[0].median_step_ms, 2000, 700);
  EXPECT_GE(report->prefill[0].median_ms, 12);
  EXPECT_LE(report->prefill[0].tokens_per_s.max, 70 / 0.012);
}

TEST(EngineBench, RefusesAPromptThatDoesNotFitTheContext) {
  EngineBenchOptions options = small_options();
  options.prefills = {200};
  const server::ServedModel model = scripted(options, {.context_length = 128});
  const auto report = measure_engine(model, options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "a prompt of 200 needs a context of 201 tokens; this model, as loaded, has 128");
}

TEST(EngineBench, RefusesWhatNoIntegerCounts) {
  EngineBenchOptions options = small_options();
  options.prefills = {};
  options.depths = {10'000'000};
  options.batches = {256};
  engine::EngineStats stats;
  stats.context.tokens = 131'072;
  stats.block_tokens = 32;
  const Status refused = internal::check_room(options, stats);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr(" tokens, as --repetitions and --decode-tokens ask, at depth 10000000 needs a context of "));
  options.engine.step_tokens = 257;  // a step computes one token of a prompt beside the streams
  EXPECT_FALSE(internal::check_room(options, stats));
}

TEST(EngineBench, CountsTheBlocksThatAWindowStandsIn) {
  EngineBenchOptions options = small_options();
  options.prefills = {};
  options.depths = {800};
  options.batches = {4};
  engine::EngineStats stats;
  stats.context.tokens = 1024;
  stats.block_tokens = 32;
  stats.kv_groups = {{.window = 0, .blocks_total = 4 * 30}, {.window = 64, .blocks_total = 4 * 3}};
  EXPECT_TRUE(internal::check_room(options, stats));
  stats.kv_groups[1].blocks_total = 4 * 3 - 1;
  EXPECT_FALSE(internal::check_room(options, stats));
  stats.kv_groups[1].blocks_total = 4 * 3;
  stats.kv_groups[0].blocks_total = 4 * 29;
  EXPECT_FALSE(internal::check_room(options, stats));
}

TEST(EngineBench, RefusesADepthThatLeavesNoRoomToGenerate) {
  EngineBenchOptions options = small_options();
  options.depths = {128};
  options.batches = {1};
  const server::ServedModel model = scripted(options, {.context_length = 128});
  const auto report = measure_engine(model, options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message,
              HasSubstr(" tokens, as --repetitions and --decode-tokens ask, at depth 128 needs a context of "));
}

TEST(EngineBench, RefusesABatchThatDoesNotFitTheCache) {
  EngineBenchOptions options = small_options();
  options.depths = {500};
  options.batches = {4};
  const server::ServedModel model = scripted(options, {.memory_budget_bytes = 1100 * test::scripted_bytes_per_token()});
  const auto report = measure_engine(model, options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, StartsWith("a batch of 4 at depth 500 needs "));
  EXPECT_THAT(report.error().message, HasSubstr("raise --memory-budget, or ask for less with --batches or --depths"));
}

TEST(EngineBench, AStepThatFailsEndsIt) {
  const EngineBenchOptions options = small_options();
  const auto throws = [](const auto&) { throw std::runtime_error("the script says so"); };
  const server::ServedModel model = scripted(options, {.before_step = throws});
  const auto report = measure_engine(model, options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "the step failed: the script says so");
}

TEST(EngineStreams, AStreamThatEndsEarlyIsAnError) {
  const server::ServedModel model = scripted(small_options());
  EngineStreams streams(*model.engine);
  ASSERT_TRUE(streams.start({1, 2, 3}, 4));
  const Status status = streams.wait_for(5);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "a stream ended after 4 of 5 tokens");
}

}  // namespace
}  // namespace redpoll::bench
