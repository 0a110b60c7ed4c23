#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace redpoll::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HistogramTest, BucketsAreCumulativeAndTheirBoundsInclusive) {
  Histogram histogram({0.1, 1});
  histogram.observe(0.1);
  histogram.observe(0.5);
  histogram.observe(7);
  std::string text;
  histogram.write("redpoll_x_seconds", "Help.", text);
  EXPECT_EQ(text,
            "# HELP redpoll_x_seconds Help.\n# TYPE redpoll_x_seconds histogram\n"
            "redpoll_x_seconds_bucket{le=\"0.1\"} 1\nredpoll_x_seconds_bucket{le=\"1\"} 2\n"
            "redpoll_x_seconds_bucket{le=\"+Inf\"} 3\nredpoll_x_seconds_sum 7.6\nredpoll_x_seconds_count 3\n");
}

TEST(HistogramTest, MergeAddsCountsAndSums) {
  Histogram a({1});
  Histogram b({1});
  a.observe(0.5);
  b.observe(0.25);
  b.observe(2);
  a.merge(b);
  EXPECT_EQ(a.count(), 3U);
  std::string text;
  a.write("h", "H.", text);
  EXPECT_THAT(text, HasSubstr("h_sum 2.75\n"));
}

TEST(MetricsTest, RefusedRequestsCountByStatusOnly) {
  Metrics metrics;
  metrics.observe({.endpoint = "chat", .status = 400}, make_inter_token_histogram());
  const std::string text = metrics.text({}, "1.0", "m");
  EXPECT_THAT(text, HasSubstr("redpoll_requests_total{endpoint=\"chat\",status=\"400\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_request_seconds_count 0\n"));
}

TEST(MetricsTest, ClientsThatWentAwayCountAsCancellations) {
  Metrics metrics;
  metrics.observe({.endpoint = "chat", .status = kClientGoneStatus}, make_inter_token_histogram());
  metrics.observe({.endpoint = "chat", .status = 200}, make_inter_token_histogram());
  EXPECT_THAT(metrics.text({}, "1.0", "m"), HasSubstr("redpoll_cancellations_total 1\n"));
}

TEST(MetricsTest, FinishedRequestsCountTokensAndTimes) {
  Metrics metrics;
  Histogram gaps = make_inter_token_histogram();
  gaps.observe(0.02);
  metrics.observe({.endpoint = "chat",
                   .status = 200,
                   .generated = true,
                   .queue_s = 0.002,
                   .ttft_s = 0.05,
                   .total_s = 0.2,
                   .prompt_tokens = 11,
                   .cached_tokens = 4,
                   .completion_tokens = 2,
                   .volatile_lines = 3},
                  gaps);
  metrics.observe(
      {.endpoint = "chat", .status = 200, .generated = true, .ttft_s = -1, .total_s = 0.1, .prompt_tokens = 5},
      make_inter_token_histogram());
  const std::string text = metrics.text({}, "1.0", "m");
  EXPECT_THAT(text, HasSubstr("redpoll_prompt_tokens_total 16\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_cached_tokens_total 4\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_completion_tokens_total 2\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_volatile_lines_total 3\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_time_to_first_token_seconds_count 1\n"));  // the second had no token
  EXPECT_THAT(text, HasSubstr("redpoll_inter_token_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_request_seconds_count 2\n"));
}

TEST(MetricsTest, EngineCountersAndGaugesComeFromItsSnapshot) {
  engine::EngineStats engine;
  engine.state = engine::EngineState::kReady;
  engine.running = 3;
  engine.blocks_used = 12;
  engine.preemptions = 2;
  const std::string text = Metrics().text(engine, "1.0", "m");
  EXPECT_THAT(text, HasSubstr("redpoll_requests_running 3\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_kv_blocks_used 12\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_preemptions_total 2\n"));
  EXPECT_THAT(text, HasSubstr("redpoll_engine_ready 1\n"));
}

TEST(MetricsTest, LabelsAreEscaped) {
  const std::string text = Metrics().text({}, "1.0", "a\"b\\c\nd");
  EXPECT_THAT(text, HasSubstr(R"(model="a\"b\\c\nd"})"));
  EXPECT_THAT(text, Not(HasSubstr("c\nd")));
}

}  // namespace
}  // namespace redpoll::server
