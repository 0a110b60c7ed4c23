// Tables of bad requests: each row is a body and the exact message and param of the Error that it must give.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/json.h"

namespace redpoll::api {

struct BadInput {
  std::string body;
  std::string message;
  std::string param;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

/// A parsed body; fails the test, and gives null, when it is not JSON.
inline json::value body_of(std::string_view text) {
  auto body = parse_json(text);
  EXPECT_TRUE(body.has_value()) << text << ": " << (body ? "" : body.error().message);
  return body ? *body : json::value(nullptr);
}

/// `parse` is the parser under test with its limits bound.
template <typename Parse>
void expect_refused(const BadInput& row, const Parse& parse) {
  const auto result = parse(body_of(row.body));
  ASSERT_FALSE(result.has_value()) << "accepted: " << row.body;
  EXPECT_EQ(result.error().message, row.message) << row.body;
  EXPECT_EQ(result.error().param, row.param) << row.body;
  EXPECT_EQ(result.error().code, row.code) << row.body;
}

}  // namespace redpoll::api
