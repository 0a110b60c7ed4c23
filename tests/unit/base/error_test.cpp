#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/clock.h"

namespace redpoll {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return fail(ErrorCode::kInvalidArgument, "odd: " + std::to_string(number), "number");
  return number / 2;
}

Result<int> quarter(int number) {
  ASSIGN_OR_RETURN(const int halved, half(number));
  ASSIGN_OR_RETURN(const int quartered, half(halved));
  return quartered;
}

Status check_even(int number) {
  RETURN_IF_ERROR(half(number));
  return {};
}

TEST(Result, MacrosPassTheErrorOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "odd: 3");
  EXPECT_EQ(quarter(7).error().message, "odd: 7");
  EXPECT_EQ(quarter(7).error().param, "number");
  EXPECT_EQ(quarter(7).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(check_even(2).has_value());
  EXPECT_EQ(check_even(3).error().message, "odd: 3");
}

Result<std::unique_ptr<int>> boxed(bool ok) {
  if (!ok) return fail(ErrorCode::kIo, "no box");
  return std::make_unique<int>(7);
}

Result<int> unboxed(bool ok) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> box, boxed(ok));
  return *box;
}

TEST(Result, MacrosMoveValuesThatCannotBeCopied) {
  EXPECT_EQ(unboxed(true).value(), 7);
  EXPECT_EQ(unboxed(false).error().code, ErrorCode::kIo);
}

TEST(ErrorCode, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  const int num_codes = static_cast<int>(ErrorCode::kInternal) + 1;
  for (int code = 0; code < num_codes; ++code) names.insert(error_code_name(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(num_codes));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(error_code_name(ErrorCode::kContextLengthExceeded), "context_length_exceeded");
}

TEST(CheckDeathTest, SaysWhereWhatAndWhy) {
  CHECK(1 + 1 == 2, "never printed");
  EXPECT_DEATH(CHECK(1 + 1 == 3, "sums must hold"),
               "error_test.cpp:[0-9]+: CHECK\\(1 \\+ 1 == 3\\) failed: sums must hold");
}

TEST(Clock, DurationsAreInMilliseconds) {
  const auto start = system_clock().now();
  EXPECT_EQ(milliseconds_between(start, start + std::chrono::microseconds(1500)), 1.5);
  EXPECT_GE(system_clock().now(), start);
}

}  // namespace
}  // namespace redpoll
