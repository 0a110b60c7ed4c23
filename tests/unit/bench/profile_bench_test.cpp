#include "bench/profile_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "support/scripted_model.h"

namespace redpoll::bench {
namespace {

using engine::StepPhase;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr Roofline kRoofline{
    .read_gb_per_s = 10, .float_gop_per_s = 100, .int16_gop_per_s = 150, .int8_gop_per_s = 200};

engine::StepTotals two_steps() {
  engine::StepTotals totals;
  totals.steps = 2;
  const auto spend = [&](StepPhase phase, int ms) {
    totals.phases[static_cast<std::size_t>(phase)] = milliseconds(ms);
  };
  spend(StepPhase::kIdle, 1000);
  spend(StepPhase::kForward, 100);
  spend(StepPhase::kSample, 8);
  spend(StepPhase::kSend, 2);
  totals.operations[{"norm", "64"}] = {.calls = 4, .time = milliseconds(10), .work = {.bytes = 1e6}};
  totals.operations[{"matmul", "64 -> 64 q4"}] = {
      .calls = 2, .time = milliseconds(80), .work = {.bytes = 4e8, .float_ops = 6e9}};
  totals.operations[{"copy block", ""}] = {};
  return totals;
}

const ProfileRow& row(const StepFigure& figure, std::string_view name) {
  return *std::ranges::find(figure.rows, name, &ProfileRow::name);
}

TEST(ProfileBench, RowsAreMeansOfAStepAndSumToIt) {
  const StepFigure figure = internal::break_down("decode", two_steps(), kRoofline);
  EXPECT_EQ(figure.steps, 2);
  EXPECT_DOUBLE_EQ(figure.step_ms, 55) << "without the time when there was nothing to do";
  double sum = 0;
  for (const ProfileRow& part : figure.rows) sum += part.ms;
  EXPECT_DOUBLE_EQ(sum, figure.step_ms);
  EXPECT_EQ(figure.rows.front().name, "matmul") << "what takes longest comes first";
  EXPECT_DOUBLE_EQ(row(figure, "norm").calls, 2);
  EXPECT_DOUBLE_EQ(row(figure, "between operations").ms, 5);
  EXPECT_DOUBLE_EQ(row(figure, "sample").ms, 4);
  EXPECT_EQ(std::ranges::count(figure.rows, "copy block", &ProfileRow::name), 0);
}

TEST(ProfileBench, TheRooflineIsWhicheverLimitIsNearer) {
  const StepFigure figure = internal::break_down("decode", two_steps(), kRoofline);
  const ProfileRow& matmul = row(figure, "matmul");
  EXPECT_DOUBLE_EQ(matmul.gb_per_s, 5);
  EXPECT_DOUBLE_EQ(matmul.gop_per_s, 75);
  EXPECT_DOUBLE_EQ(matmul.roofline, 0.75) << "reading takes half of the time at least, computing three quarters";
  EXPECT_DOUBLE_EQ(row(figure, "norm").roofline, 0.01);
  EXPECT_TRUE(std::isnan(row(figure, "sample").roofline));
}

class MeasuredStepsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.engine.step_tokens = 32;
    options_.prefills = {70};
    options_.depths = {40};
    options_.batches = {1, 3};
    options_.decode_tokens = 5;
    options_.repetitions = 2;
    engine::EngineOptions engine_options;
    engine_options.max_batch = 4;
    engine_options.step_tokens = 32;
    engine_options.memory_budget_bytes = std::size_t{16} << 20U;
    engine_options.profile = profile_;
    const auto step_of_two_milliseconds = [](const auto&) { std::this_thread::sleep_for(milliseconds(2)); };
    auto engine = engine::Engine::start(
        engine_options, test::scripted_loader({.context_length = 1024, .before_step = step_of_two_milliseconds}));
    ASSERT_TRUE(engine) << engine.error().message;
    model_.engine = *std::move(engine);
  }

  EngineBenchOptions options_;
  std::shared_ptr<engine::StepProfile> profile_ = std::make_shared<engine::StepProfile>();
  server::ServedModel model_;
};

TEST_F(MeasuredStepsTest, EveryBatchAndPromptHasAFigure) {
  const auto figures = measure_steps(model_, *profile_, options_, kRoofline, [](std::string_view) {});
  ASSERT_TRUE(figures) << figures.error().message;
  ASSERT_EQ(figures->size(), 3U);
  EXPECT_EQ((*figures)[1].what, "decode at depth 40, batch 3");
  EXPECT_GE((*figures)[1].steps, 9) << "two repetitions of five tokens";
  EXPECT_EQ((*figures)[2].what, "prefill of 70");
  EXPECT_EQ((*figures)[2].steps, 6) << "70 tokens take three steps of 32, twice";
  for (const StepFigure& figure : *figures) EXPECT_GE(figure.step_ms, 2);

  const ProfileReport report{.conditions = {}, .roofline = kRoofline, .figures = *figures};
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("this machine at best"));
  EXPECT_THAT(text, HasSubstr("\ndecode at depth 40, batch 3"));
  EXPECT_THAT(text, HasSubstr("\nstep "));
  const json::object object = to_json(report);
  EXPECT_EQ(object.at("figures").as_array().size(), 3U);
  EXPECT_EQ(object.at("roofline").at("read_gb_per_s").as_double(), 10);
}

TEST_F(MeasuredStepsTest, APromptThatDoesNotFitIsAnError) {
  options_.prefills = {2000};
  const auto figures = measure_steps(model_, *profile_, options_, kRoofline, [](std::string_view) {});
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().message,
            "a prompt of 2000 needs a context of 2001 tokens; this model, as loaded, has 1024");
}

}  // namespace
}  // namespace redpoll::bench
