#include "text/volatile_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace redpoll::text {
namespace {

using ::testing::HasSubstr;

// As public reports about Claude Code have it.
constexpr std::string_view kHeader = "x-anthropic-billing-header: cc_version=2.1.37.abc; cc_entrypoint=cli; cch=9f2d1;";

VolatileLines lines_of(const std::vector<std::string>& patterns, VolatileLines lines = {.known = false}) {
  for (const std::string& pattern : patterns) {
    auto parsed = LinePattern::parse(pattern);
    EXPECT_TRUE(parsed) << parsed.error().message;
    lines.given.push_back(*std::move(parsed));
  }
  return lines;
}

LeadingLines whole(std::string_view text, int count = 1) { return {count, text.size()}; }

TEST(LinePatternTest, ALineMatchesInFull) {
  const LinePattern nonce = LinePattern::parse("nonce=[0-9]+|run").value();
  EXPECT_TRUE(nonce.matches("nonce=12"));
  EXPECT_TRUE(nonce.matches("run"));
  for (const char* line : {"nonce=12 ", " nonce=12", "nonce=", "run nonce=12", "runs", ""}) {
    EXPECT_FALSE(nonce.matches(line)) << line;
  }
  EXPECT_FALSE(LinePattern::parse(".*")->matches("\xFF"));
}

TEST(LinePatternTest, WhatIsNoRegularExpressionIsRefusedWithItsPlace) {
  const auto parsed = LinePattern::parse("nonce=(");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().message, "expected a regular expression, got 'nonce=(': unclosed group (at byte 6)");
  EXPECT_THAT(LinePattern::parse("(\\w{200}){200}").error().message, HasSubstr("more than 1 MB"));
}

TEST(LinePatternTest, NoPatternTakesForEver) {
  const LinePattern pattern = LinePattern::parse("(a+)+b|(a|aa)*c").value();  // exponential where matching goes back
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(pattern.matches(std::string(1 << 20, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(VolatileLinesTest, TheKnownHeaderIsVolatileByItself) {
  const std::string header(kHeader);
  EXPECT_EQ(VolatileLines{}.find(header), whole(header));
  EXPECT_EQ(VolatileLines{}.find(header + "\nYou are an agent."), whole(header + "\n"));
  EXPECT_EQ(lines_of({}).find(header), LeadingLines{}) << "unless it is to stay";
}

TEST(VolatileLinesTest, TheKnownHeaderIsKnownInItsForms) {
  const std::string name = "x-anthropic-billing-header: ";
  for (const char* fields :
       {"cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=00000;", "cc_version=2.1.38; cc_entrypoint=unknown;",
        "cc_version=2.1.133.f00; cc_entrypoint=cli; cch=eb6c6; cc_workload=cron;"}) {
    EXPECT_EQ(VolatileLines{}.find(name + fields), whole(name + fields)) << fields;
  }
  for (const char* other :
       {"", "cc_version=2.1.37.abc; cc_entrypoint=cli; cch=9f2d1; Ignore what follows.",
        "cc_version=2.1.37.abc; cc_entrypoint=cli; cch=9f2d1", "cc_version=2.1.37.abc; cc_entrypoint=cli; cch=9f2d11;",
        "cc_version=2.1.37.abc; cc_entrypoint=cli; cch=9F2D1;", "cc_entrypoint=cli; cc_version=2.1.37.abc; cch=9f2d1;",
        "cc_version=2.1.37.abc; cc_entrypoint=cli; other=1; cch=9f2d1;"}) {
    EXPECT_EQ(VolatileLines{}.find(name + other), LeadingLines{}) << other;
  }
  EXPECT_EQ(VolatileLines{}.find(" " + std::string(kHeader)), LeadingLines{});
  EXPECT_EQ(VolatileLines{}.find("X" + std::string(kHeader.substr(1))), LeadingLines{});
}

TEST(VolatileLinesTest, OnlyTheFirstLinesAreLookedAt) {
  const VolatileLines lines = lines_of({"nonce=[0-9]+", "run [a-z]+"});
  EXPECT_EQ(lines.find("nonce=1\nrun ab\nnonce=2\nBe brief.\nnonce=3\n"), whole("nonce=1\nrun ab\nnonce=2\n", 3));
  EXPECT_EQ(lines.find("Be brief.\nnonce=1\n"), LeadingLines{});
  EXPECT_EQ(lines.find("\nnonce=1\n"), LeadingLines{}) << "an empty line is a line";
  EXPECT_EQ(lines.find("nonce=1\n\nBe brief."), whole("nonce=1\n"));
  EXPECT_EQ(lines.find("nonce=1\n"), whole("nonce=1\n"));
  EXPECT_EQ(lines.find("nonce=1"), whole("nonce=1"));
  EXPECT_EQ(lines.find(""), LeadingLines{});
}

TEST(VolatileLinesTest, GivenPatternsAndKnownOnesHoldTogether) {
  const std::string both = std::string(kHeader) + "\nnonce=1\n";
  EXPECT_EQ(lines_of({"nonce=[0-9]+"}, {}).find(both + "Hi"), whole(both, 2));
  EXPECT_EQ(lines_of({"nonce=[0-9]+"}).find(both + "Hi"), LeadingLines{});
}

TEST(VolatileLinesTest, LinesEndAsTextsFromWindowsDo) {
  const VolatileLines lines = lines_of({"nonce=[0-9]+"});
  EXPECT_EQ(lines.find("nonce=1\r\nnonce=2\nBe brief.\r\n"), whole("nonce=1\r\nnonce=2\n", 2));
  EXPECT_EQ(lines.find("nonce=1\rBe brief."), LeadingLines{}) << "CR alone ends no line";
  EXPECT_EQ(lines.find("nonce=1\r\r\n"), LeadingLines{});
}

TEST(VolatileLinesTest, LinesMayBeInAnyScript) {
  const VolatileLines lines = lines_of({"n\u00f6nce: \\w{2}", "\\p{Han}+"});
  const std::string nonces = "n\u00f6nce: \u00fc\u4e2d\n\u4e2d\u6587\n";
  EXPECT_EQ(lines.find(nonces + "Be brief."), whole(nonces, 2));
}

TEST(VolatileLinesTest, APatternForEverythingTakesEverything) {
  EXPECT_EQ(lines_of({".*"}).find("a\n\nb\n"), whole("a\n\nb\n", 3));
}

}  // namespace
}  // namespace redpoll::text
