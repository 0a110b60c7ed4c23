#include "bench/table.h"

#include <gtest/gtest.h>

#include <limits>

namespace redpoll::bench {
namespace {

TEST(Table, TheFirstColumnStandsLeftAndTheOthersRight) {
  Table table({"what", "tok/s", "ms"});
  table.add_row({"prefill", "12.3", "4"});
  table.add_row({"x", "4567", "-"});
  EXPECT_EQ(table.text(),
            "what     tok/s  ms\n"
            "prefill   12.3   4\n"
            "x         4567   -\n");
}

TEST(Table, ALineHasNoBlanksAtItsEnd) {
  Table table({"a", "b"});
  table.add_row({"long", ""});
  EXPECT_EQ(table.text(), "a     b\nlong\n");
}

TEST(Table, FiguresHaveThreeDigitsOrAllBeforeThePoint) {
  EXPECT_EQ(format_figure(0.12345), "0.123");
  EXPECT_EQ(format_figure(1.2345), "1.23");
  EXPECT_EQ(format_figure(12.345), "12.3");
  EXPECT_EQ(format_figure(123.45), "123");
  EXPECT_EQ(format_figure(1234567.8), "1234568");
  EXPECT_EQ(format_figure(0), "0.000");
}

TEST(Table, RoundingThatAddsADigitTakesOneFromTheEnd) {
  EXPECT_EQ(format_figure(0.9996), "1.00");
  EXPECT_EQ(format_figure(9.996), "10.0");
  EXPECT_EQ(format_figure(99.96), "100");
}

TEST(Table, WhatIsNoNumberIsADash) { EXPECT_EQ(format_figure(std::numeric_limits<double>::quiet_NaN()), "-"); }

TEST(FormatBytesTest, ChoosesTheUnit) {
  EXPECT_EQ(format_bytes(512), "0.500 KiB");
  EXPECT_EQ(format_bytes(23 << 10U), "23.0 KiB");
  EXPECT_EQ(format_bytes((std::uint64_t{1} << 20U) * 3 / 2), "1.50 MiB");
  EXPECT_EQ(format_bytes((std::uint64_t{1} << 30U) / 5), "205 MiB");
  EXPECT_EQ(format_bytes(std::uint64_t{100} << 30U), "100 GiB");
}

}  // namespace
}  // namespace redpoll::bench
