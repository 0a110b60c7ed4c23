#include "cli/flag_values.h"

#include <gtest/gtest.h>

#include <limits>

namespace redpoll::cli {
namespace {

std::string whole_error(std::string_view text) { return parse_whole(text, {1, 256}).error().message; }
std::string number_error(std::string_view text) { return parse_number(text, {0, 2}).error().message; }

TEST(FlagValues, WholeNumbersAreDecimalDigits) {
  EXPECT_EQ(*parse_whole("1", {1, 256}), 1);
  EXPECT_EQ(*parse_whole("256", {1, 256}), 256);
  EXPECT_EQ(*parse_whole("-3", {-5, 5}), -3);
  EXPECT_EQ(*parse_whole("010", {1, 256}), 10);  // not octal
  EXPECT_EQ(*parse_whole("9223372036854775807", {0, std::numeric_limits<std::int64_t>::max()}),
            std::numeric_limits<std::int64_t>::max());
}

TEST(FlagValues, OtherWholeNumbersAreRefusedWithRangeAndValue) {
  EXPECT_EQ(whole_error("0"), "expected a whole number from 1 to 256, got 0");
  EXPECT_EQ(whole_error("257"), "expected a whole number from 1 to 256, got 257");
  EXPECT_EQ(whole_error("99999999999999999999"), "expected a whole number from 1 to 256, got 99999999999999999999");
  EXPECT_EQ(whole_error("2.5"), "expected a whole number from 1 to 256, got 2.5");
  EXPECT_EQ(whole_error(""), "expected a whole number from 1 to 256, got nothing");
  for (const char* text : {"abc", "0x10", " 3", "3 ", "3k", "true", "--host"}) {
    EXPECT_EQ(whole_error(text), "expected a whole number from 1 to 256, got '" + std::string(text) + "'");
  }
}

TEST(FlagValues, NumbersMayHaveFractionsAndExponents) {
  EXPECT_EQ(*parse_number("0.7", {0, 2}), 0.7);
  EXPECT_EQ(*parse_number("1e-1", {0, 2}), 0.1);
  EXPECT_EQ(*parse_number(".5", {0, 2}), 0.5);
  EXPECT_EQ(*parse_number("-2", {-2, 2}), -2);
}

TEST(FlagValues, OtherNumbersAreRefusedWithRangeAndValue) {
  EXPECT_EQ(number_error("999"), "expected a number from 0 to 2, got 999");
  EXPECT_EQ(number_error("-0.1"), "expected a number from 0 to 2, got -0.1");
  EXPECT_EQ(number_error("1e999"), "expected a number from 0 to 2, got 1e999");
  EXPECT_EQ(number_error(""), "expected a number from 0 to 2, got nothing");
  for (const char* text : {"nan", "NaN", "inf", "infinity", "0x1", " 1", "1 ", "1,5", "e", "-", "1e"}) {
    EXPECT_EQ(number_error(text), "expected a number from 0 to 2, got '" + std::string(text) + "'");
  }
}

TEST(FlagValues, RangesAreShownWithoutExponents) {
  EXPECT_EQ(parse_number("x", {0.001, 1e6}).error().message, "expected a number from 0.001 to 1000000, got 'x'");
}

TEST(FlagValues, SwitchesTakeTheUsualWords) {
  for (const char* text : {"true", "yes", "on", "1"}) EXPECT_TRUE(*parse_switch(text)) << text;
  for (const char* text : {"false", "no", "off", "0"}) EXPECT_FALSE(*parse_switch(text)) << text;
  EXPECT_EQ(parse_switch("maybe").error().message, "expected true or false, got 'maybe'");
  EXPECT_EQ(parse_switch("").error().message, "expected true or false, got nothing");
}

TEST(FlagValues, AValueThatIsNotUtf8IsShownAsUtf8) { EXPECT_EQ(shown_value("a\xff"), "'a\xEF\xBF\xBD'"); }

}  // namespace
}  // namespace redpoll::cli
