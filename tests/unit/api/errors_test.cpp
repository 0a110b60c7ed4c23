#include "api/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace redpoll::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Expected {
  ErrorCode code;
  int status;
  std::string body;
};

TEST(Errors, EveryCodeHasItsStatusTypeAndCode) {
  const std::string head = R"({"error":{"message":"m","type":)";
  const Expected table[] = {
      {ErrorCode::kInvalidArgument, 400, R"("invalid_request_error","param":null,"code":null}})"},
      {ErrorCode::kContextLengthExceeded, 400,
       R"("invalid_request_error","param":null,"code":"context_length_exceeded"}})"},
      {ErrorCode::kUnsupported, 400, R"("invalid_request_error","param":null,"code":"unsupported_value"}})"},
      {ErrorCode::kUnauthorized, 401, R"("invalid_request_error","param":null,"code":"invalid_api_key"}})"},
      {ErrorCode::kForbidden, 403, R"("permission_error","param":null,"code":"forbidden"}})"},
      {ErrorCode::kNotFound, 404, R"("invalid_request_error","param":null,"code":"not_found"}})"},
      {ErrorCode::kModelNotFound, 404, R"("invalid_request_error","param":null,"code":"model_not_found"}})"},
      {ErrorCode::kMethodNotAllowed, 405, R"("invalid_request_error","param":null,"code":"method_not_allowed"}})"},
      {ErrorCode::kRequestTimeout, 408, R"("invalid_request_error","param":null,"code":"request_timeout"}})"},
      {ErrorCode::kPayloadTooLarge, 413, R"("invalid_request_error","param":null,"code":"payload_too_large"}})"},
      {ErrorCode::kUnsupportedMediaType, 415,
       R"("invalid_request_error","param":null,"code":"unsupported_media_type"}})"},
      {ErrorCode::kQueueFull, 429, R"("rate_limit_error","param":null,"code":"queue_full"}})"},
      {ErrorCode::kInternal, 500, R"("server_error","param":null,"code":"internal_error"}})"},
      {ErrorCode::kCorruptFile, 500, R"("server_error","param":null,"code":"internal_error"}})"},
      {ErrorCode::kIo, 500, R"("server_error","param":null,"code":"internal_error"}})"},
      {ErrorCode::kUnavailable, 503, R"("server_error","param":null,"code":"unavailable"}})"},
      {ErrorCode::kCancelled, 503, R"("server_error","param":null,"code":"cancelled"}})"},
      {ErrorCode::kTimeout, 504, R"("server_error","param":null,"code":"timeout"}})"},
  };
  for (const Expected& row : table) {
    EXPECT_EQ(http_status(row.code), row.status) << error_code_name(row.code);
    EXPECT_EQ(openai_error_body({row.code, "m", ""}), head + row.body);
  }
}

TEST(Errors, TheParamIsInTheBody) {
  EXPECT_EQ(
      openai_error_body({ErrorCode::kInvalidArgument, "bad \"x\"", "messages[0].role"}),
      R"({"error":{"message":"bad \"x\"","type":"invalid_request_error","param":"messages[0].role","code":null}})");
}

TEST(Errors, AMessageThatIsNotUtf8StillGivesJson) {
  const auto body = parse_json(openai_error_body({ErrorCode::kIo, "caf\xE9", "p\xFF"}));
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(body->at("error").at("message").as_string(), "caf\xEF\xBF\xBD");
  EXPECT_EQ(body->at("error").at("param").as_string(), "p\xEF\xBF\xBD");
}

TEST(Errors, StatusesThatAskForHeadersGetThem) {
  EXPECT_THAT(error_headers(ErrorCode::kQueueFull), ElementsAre(Pair("Retry-After", "1")));
  EXPECT_THAT(error_headers(ErrorCode::kUnavailable), ElementsAre(Pair("Retry-After", "5")));
  EXPECT_THAT(error_headers(ErrorCode::kCancelled), ElementsAre(Pair("Retry-After", "5")));
  EXPECT_THAT(error_headers(ErrorCode::kUnauthorized), ElementsAre(Pair("WWW-Authenticate", "Bearer")));
  EXPECT_THAT(error_headers(ErrorCode::kInvalidArgument), IsEmpty());
  EXPECT_THAT(error_headers(ErrorCode::kInternal), IsEmpty());
}

TEST(Errors, WarningsNameTheUnknownFields) {
  EXPECT_EQ(format_warnings({}), "");
  EXPECT_EQ(format_warnings({"mirostat", "cache_prompt"}), "unknown fields: mirostat, cache_prompt");
}

TEST(Errors, AFieldNameCannotBreakOutOfTheWarningHeader) {
  EXPECT_EQ(format_warnings({"a\r\nSet-Cookie: x", "b,c", "\xC3\xA9"}), "unknown fields: a??Set-Cookie:?x, b?c, ??");
  EXPECT_EQ(format_warnings({std::string(1000, 'x')}), "unknown fields: " + std::string(64, 'x'));
  EXPECT_TRUE(format_warnings(std::vector<std::string>(50, "f")).ends_with(", f and 30 more"));
}

TEST(Errors, AnAbsentEmptyOrDefaultModelMeansTheServedOne) {
  EXPECT_TRUE(check_model("", "m").has_value());
  EXPECT_TRUE(check_model("default", "m").has_value());
  EXPECT_TRUE(check_model("m", "m").has_value());
}

TEST(Errors, AnotherModelIsNotFoundAndTheMessageListsWhatIsServed) {
  const Status status = check_model("gpt-4", "smol");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kModelNotFound);
  EXPECT_EQ(status.error().message, "model 'gpt-4' is not served here; served: 'smol'");
  EXPECT_EQ(status.error().param, "model");
  EXPECT_LT(check_model(std::string(100'000, 'x'), "smol").error().message.size(), 200U);
}

}  // namespace
}  // namespace redpoll::api
