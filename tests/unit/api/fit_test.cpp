#include "api/fit.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace redpoll::api {
namespace {

TEST(FitQuestionTest, HasAContextOrNot) {
  EXPECT_EQ(parse_fit_question({})->context, std::nullopt);
  EXPECT_EQ(parse_fit_question({{"context", "8192"}})->context, 8192);
}

TEST(FitQuestionTest, EverythingElseIsRefused) {
  for (const char* value : {"", "0", "-1", "1.5", "8k", " 8", "1000000001", "99999999999999999999"}) {
    const auto refused = parse_fit_question({{"context", value}});
    ASSERT_FALSE(refused) << value;
    EXPECT_EQ(refused.error().param, "context");
    EXPECT_EQ(refused.error().message,
              "'context': expected a whole number from 1 to 1000000000, got '" + std::string(value) + "'");
  }
  EXPECT_EQ(parse_fit_question({{"context", "1"}, {"context", "1"}}).error().message,
            "'context' comes twice in the query");
  EXPECT_EQ(parse_fit_question({{"contxt", "1"}}).error().message,
            "expected only 'context' in the query, got 'contxt'");
}

TEST(FitReportTest, WhatNobodyKnowsIsNull) {
  FitReport report;
  report.model = "org/name";
  report.at_start = {.read_bytes = 7, .predicted_tokens_per_s = 1.5};
  report.sequences_at_once = 3;
  report.ssd_cache_bytes = std::uint64_t{256} << 20U;
  report.one_sequence = {.cache_bytes = 1, .total_bytes = 2};
  report.other_machines.push_back(
      {.name = "small", .memory_bytes = 8, .read_gb_per_s = 100, .at_start = {}, .at_context = {}});
  const json::value parsed = *parse_json(format_fit(report));
  EXPECT_EQ(parsed.at("model"), "org/name");
  EXPECT_EQ(parsed.at("sequences_at_once"), 3);
  EXPECT_EQ(parsed.at("ssd_cache_bytes"), 268'435'456);
  EXPECT_TRUE(parsed.at("machine").at("read_gb_per_s").is_null());
  EXPECT_EQ(parsed.at("at_start"), (json::value{{"read_bytes", 7U}, {"predicted_tokens_per_s", 1.5}}));
  EXPECT_TRUE(parsed.at("at_context").at("predicted_tokens_per_s").is_null());
  EXPECT_EQ(parsed.at("one_sequence"), (json::value{{"cache_bytes", 1U}, {"total_bytes", 2U}}));
  const json::value& machine = parsed.at("other_machines").at(0);
  EXPECT_EQ(machine.at("name"), "small");
  EXPECT_EQ(machine.at("fits"), false);
  EXPECT_TRUE(machine.at("predicted_tokens_per_s_at_start").is_null());
}

}  // namespace
}  // namespace redpoll::api
