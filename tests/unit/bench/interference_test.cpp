#include "bench/interference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/serve_bench.h"
#include "server/app.h"
#include "unit/server/scripted_server.h"

namespace redpoll::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::chrono::steady_clock::time_point at(int ms) { return std::chrono::steady_clock::time_point(milliseconds(ms)); }

TEST(Interference, GapsThatTouchTheDisturbanceAreDisturbed) {
  RequestSample early;
  early.tokens_at = {at(-100), at(-50), at(0), at(10), at(21), at(51), at(81), at(90), at(100)};
  RequestSample late;
  late.tokens_at = {at(0), at(82), at(89)};
  RequestSample intruder;
  intruder.sent_at = at(15);
  intruder.tokens_at = {at(81)};
  internal::Gaps gaps;
  internal::sort_gaps({early, late}, intruder, gaps);
  EXPECT_THAT(gaps.calm_ms, ElementsAre(10, 9, 10, 7)) << "the gaps before the later stream ran count for nothing";
  EXPECT_THAT(gaps.disturbed_ms, ElementsAre(11, 30, 30, 82));
}

TEST(Interference, NoTwoPromptsAreAlike) {
  ServeBenchOptions options;
  options.streams = 3;
  options.prompt_words = 8;
  options.interfere_tokens = 20;
  std::vector<std::string> all = internal::make_prompts(options);
  for (const InterferencePrompts& round : internal::make_interference(options)) {
    EXPECT_EQ(round.streams.size(), 3U);
    EXPECT_EQ(std::ranges::count(round.intruder, ' '), 19);
    all.insert(all.end(), round.streams.begin(), round.streams.end());
    all.push_back(round.intruder);
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

class InterferenceTest : public ::testing::Test {
 protected:
  void start(const server::ScriptOptions& script) {
    server::ServerOptions options;
    options.port = 0;
    auto app = server::App::start_with(options, [&] { return server::scripted_server("whatever", script); });
    ASSERT_TRUE(app) << app.error().message;
    app_ = *std::move(app);
    load_.url = http::parse_url(app_->base_url()).value();
    load_.model = "scripted";
    load_.max_tokens = 40;
  }

  std::unique_ptr<server::App> app_;
  LoadOptions load_;
};

TEST_F(InterferenceTest, AllStreamsAreWatchedWhileAPromptComesIn) {
  start({.step_delay = milliseconds(2)});
  const auto figure = measure_interference(load_, {{.streams = {"a", "bb"}, .intruder = "ccc"}});
  ASSERT_TRUE(figure) << figure.error().message;
  EXPECT_EQ(figure->prompt_tokens, 3);
  EXPECT_GE(figure->ttft_ms, 2);
  EXPECT_GT(figure->calm_ms.p50, 0);
  EXPECT_GT(figure->disturbed_ms.p50, 0) << "a step of the intruder is one of the streams too";
  EXPECT_THAT(to_text(*figure), HasSubstr("while it comes in"));
  EXPECT_EQ(to_json(*figure).at("disturbed_ms").as_object().size(), 4U);
}

TEST_F(InterferenceTest, StreamsThatFailAreAnError) {
  start({.throw_at_position = 3});
  const auto figure = measure_interference(load_, {{.streams = {"a"}, .intruder = "b"}});
  ASSERT_FALSE(figure);
  EXPECT_THAT(figure.error().message, HasSubstr("the script says so"));
}

TEST_F(InterferenceTest, AnswersTooShortToHaveGapsAreAnError) {
  start({});
  load_.max_tokens = 1;
  const auto figure = measure_interference(load_, {{.streams = {"a", "bb"}, .intruder = "ccc"}});
  ASSERT_FALSE(figure);
  EXPECT_EQ(figure.error().message,
            "no two tokens of a stream came without the long prompt: expected longer answers than 1 tokens");
}

TEST(ServeBench, AnswersTooShortToBeInterferedWithAreRefused) {
  ServeBenchOptions options;
  options.streams = 1;
  options.interfere_tokens = 100;
  options.max_tokens = 3;
  const auto report = run_serve_bench(options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message,
            "streams that a long prompt interferes with need tokens before it and after: expected --max-tokens of 4 or "
            "more, got 3");
  EXPECT_EQ(report.error().param, "max_tokens");
}

TEST(ServeBench, AServerWithoutAPlaceForTheLongPromptIsRefused) {
  ServeBenchOptions options;
  options.streams = 8;
  options.interfere_tokens = 100;
  const auto report = run_serve_bench(options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(
      report.error().message,
      "the long prompt needs a place beside the streams: expected --streams below --max-batch, which is 8, got 8");
}

}  // namespace
}  // namespace redpoll::bench
