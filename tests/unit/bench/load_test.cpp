#include "bench/load.h"

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
using ::testing::StartsWith;

class LoadTest : public ::testing::Test {
 protected:
  void start(const server::ScriptOptions& script = {}) {
    server::ServerOptions options;
    options.port = 0;
    auto app = server::App::start_with(options, [&] { return server::scripted_server("whatever", script); });
    ASSERT_TRUE(app) << app.error().message;
    app_ = *std::move(app);
    load_.url = http::parse_url(app_->base_url()).value();
    load_.model = "scripted";
    load_.max_tokens = 6;
    load_.streams = 3;
  }

  std::unique_ptr<server::App> app_;
  LoadOptions load_;
};

TEST_F(LoadTest, EveryPromptIsAskedOnceAndEveryTokenTimed) {
  start({.step_delay = milliseconds(2)});
  const auto result = run_load(load_, {"a", "bb", "ccc", "dddd", "eeeee"});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->samples.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const RequestSample& sample = result->samples[i];
    EXPECT_EQ(sample.prompt_tokens, static_cast<int>(i) + 1) << "a token a byte, in the order of the prompts";
    EXPECT_EQ(sample.completion_tokens, 6);
    EXPECT_LE(sample.between_tokens_ms.size(), 5U);
    double total = sample.ttft_ms;
    for (const double gap : sample.between_tokens_ms) total += gap;
    EXPECT_GE(total, 6 * 2);
    EXPECT_GE(sample.total_ms, total);
  }
  EXPECT_GE(result->wall_ms, 2 * 6 * 2) << "five prompts in three streams take two rounds";
}

TEST_F(LoadTest, ARefusedRequestIsAnErrorWithTheServersWords) {
  start();
  load_.model = "another";
  const auto result = run_load(load_, {"a"});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, StartsWith("/v1/completions answered 404: "));
  EXPECT_THAT(result.error().message, HasSubstr("scripted"));
}

TEST_F(LoadTest, AStreamThatFailsIsAnError) {
  start({.throw_at_position = 3});
  const auto result = run_load(load_, {"a"});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("the script says so"));
}

TEST_F(LoadTest, TheFirstListedModelIsFound) {
  start();
  EXPECT_EQ(first_model(load_).value(), "scripted");
}

TEST_F(LoadTest, TheBenchMeasuresAServerThatRuns) {
  start();
  const auto report = run_serve_bench({.url = app_->base_url(),
                                       .model = {},
                                       .engine = {},
                                       .streams = 2,
                                       .requests = 5,
                                       .prompt_words = 4,
                                       .shared_prefix = 3,
                                       .cache_hit_ratio = 0.5,
                                       .max_tokens = 5,
                                       .seed = 1},
                                      [](std::string_view) {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->requests, 5);
  EXPECT_GT(report->output_tokens_per_s, 0);
  EXPECT_GT(report->prompt_tokens, 7);
  const std::string text = to_text(*report);
  EXPECT_THAT(text, HasSubstr("\nmilliseconds"));
  EXPECT_THAT(text, HasSubstr("\ngenerated tok/s"));
  EXPECT_EQ(to_json(*report).at("conditions").at("model").as_string(), "scripted");
}

TEST_F(LoadTest, WhatIsNoUrlIsAnError) {
  ServeBenchOptions options;
  options.url = "localhost:1";
  const auto report = run_serve_bench(options, [](std::string_view) {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "expected a URL that begins with http://, got 'localhost:1'");
}

// Events by hand, so that times are known.
class StreamStateTest : public ::testing::Test {
 protected:
  StreamStateTest() { state_.sample.sent_at = at(0); }
  static std::chrono::steady_clock::time_point at(int ms) {
    return std::chrono::steady_clock::time_point(milliseconds(ms));
  }
  internal::StreamState state_;
};

TEST_F(StreamStateTest, TimesRunFromSendingToTheFirstTokenAndThenBetweenThem) {
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": ""}]})", at(5)));
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": "a"}]})", at(30)));
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": "", "finish_reason": "length"}]})", at(35)));
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": "b"}]})", at(50)));
  ASSERT_TRUE(internal::take_event(state_, "[DONE]", at(70)));
  EXPECT_EQ(state_.sample.ttft_ms, 30);
  EXPECT_THAT(state_.sample.between_tokens_ms, ElementsAre(20));
  EXPECT_TRUE(state_.done);
}

TEST_F(StreamStateTest, TokensCountWhereTheServerTellsThem) {
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": "", "token_ids": [7]}]})", at(10)));
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [{"text": "x", "token_ids": []}]})", at(20)));
  EXPECT_EQ(state_.sample.tokens_at.size(), 1U);
  EXPECT_EQ(state_.sample.ttft_ms, 10);
}

TEST_F(StreamStateTest, UsageIsTakenFromTheServer) {
  ASSERT_TRUE(internal::take_event(state_, R"({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4,
      "prompt_tokens_details": {"cached_tokens": 8}}})",
                                   at(1)));
  EXPECT_EQ(state_.sample.prompt_tokens, 9);
  EXPECT_EQ(state_.sample.completion_tokens, 4);
  EXPECT_EQ(state_.sample.cached_tokens, 8);
}

TEST_F(StreamStateTest, WhatIsNoChunkIsAnError) {
  EXPECT_EQ(internal::take_event(state_, "[1]", at(1)).error().message, "expected an object as an event, got [1]");
  EXPECT_EQ(internal::take_event(state_, R"({"error": {"message": "no"}})", at(1)).error().message,
            "a stream failed: no");
  EXPECT_FALSE(internal::take_event(state_, "{", at(1)));
}

TEST(ServeBench, TheShareOfPromptsThatBeginAlikeIsTheRatio) {
  ServeBenchOptions options;
  options.requests = 10;
  options.prompt_words = 5;
  options.shared_prefix = 8;
  options.cache_hit_ratio = 0.3;
  const std::vector<std::string> prompts = internal::make_prompts(options);
  ASSERT_EQ(prompts.size(), 11U);
  std::string shared = prompts[0];
  for (int i = 0; i < 5; ++i) shared.erase(shared.rfind(' '));
  int num_shared = 0;
  for (std::size_t i = 1; i < prompts.size(); ++i) {
    EXPECT_EQ(std::ranges::count(prompts[i], ' '), 12);
    num_shared += prompts[i].starts_with(shared + ' ') ? 1 : 0;
    EXPECT_NE(prompts[i], prompts[i - 1]);
  }
  EXPECT_EQ(num_shared, 3);
}

TEST(ServeBench, TheRequestBeforehandIsAsLongAsTheOthersUnlessToldOtherwise) {
  ServeBenchOptions options;
  options.prompt_words = 40;
  options.shared_prefix = 3;
  const auto words_of_each = [&options] {
    std::vector<std::ptrdiff_t> words;
    for (const std::string& prompt : internal::make_prompts(options)) {
      words.push_back(std::ranges::count(prompt, ' ') + 1);
    }
    return words;
  };
  options.requests = 2;
  EXPECT_THAT(words_of_each(), ElementsAre(43, 43, 43));
  options.warm_up_words = 2;
  EXPECT_THAT(words_of_each(), ElementsAre(5, 43, 43));
}

TEST(ServeBench, RatesAreOfAllStreamsTogether) {
  LoadResult result;
  result.samples = {{.ttft_ms = 10,
                     .between_tokens_ms = {1, 3},
                     .total_ms = 14,
                     .prompt_tokens = 30,
                     .cached_tokens = 15,
                     .completion_tokens = 3},
                    {.ttft_ms = 20,
                     .between_tokens_ms = {2},
                     .total_ms = 22,
                     .prompt_tokens = 10,
                     .cached_tokens = 5,
                     .completion_tokens = 2}};
  result.wall_ms = 100;
  const ServeBenchReport report = internal::summarize(result);
  EXPECT_EQ(report.ttft_ms.p50, 15);
  EXPECT_EQ(report.between_tokens_ms.p50, 2);
  EXPECT_EQ(report.between_tokens_ms.max, 3);
  EXPECT_EQ(report.prompt_tokens, 20);
  EXPECT_EQ(report.cached_share, 0.5);
  EXPECT_DOUBLE_EQ(report.output_tokens_per_s, 50);
  EXPECT_DOUBLE_EQ(report.prompt_tokens_per_s, 400);
}

}  // namespace
}  // namespace redpoll::bench
