#include "http/request.h"

#include <gtest/gtest.h>

namespace redpoll::http {
namespace {

Request request_for(std::string target, std::string method = "GET") {
  Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  return request;
}

TEST(Request, HeadersAreFoundWithoutRegardToCase) {
  Request request;
  request.headers = {{"Content-Type", "text/plain"}, {"X-Twice", "first"}, {"x-twice", "second"}};
  EXPECT_EQ(request.header("content-TYPE"), "text/plain");
  EXPECT_EQ(request.header("x-twice"), "first");
  EXPECT_EQ(request.header("absent"), "");
  EXPECT_FALSE(request.has_header("absent"));
}

TEST(Request, ThePathEndsWhereAQueryBegins) {
  Request request = request_for("/v1/models?name=a%20b?c");
  ASSERT_TRUE(parse_target(request));
  EXPECT_EQ(request.path, "/v1/models");
}

TEST(Request, AQuerysFieldsAreDecodedInTheirOrder) {
  using Fields = std::vector<QueryField>;
  EXPECT_EQ(parse_query("/fit"), Fields{});
  EXPECT_EQ(parse_query("/fit?"), Fields{});
  EXPECT_EQ(parse_query("/fit?context=8192&a%20b=%26&&x&y=&z=1=2?"),
            (Fields{{"context", "8192"}, {"a b", "&"}, {"x", ""}, {"y", ""}, {"z", "1=2?"}}));
  for (const char* target : {"/fit?a=%", "/fit?%zz=1", "/fit?a=1&b=%f"}) {
    const auto broken = parse_query(target);
    ASSERT_FALSE(broken) << target;
    EXPECT_EQ(broken.error().message, "expected two hex digits after '%' in the URL");
  }
}

TEST(Request, TargetMustBeAPath) {
  for (const char* target : {"http://evil.example/", "example:80", "*"}) {
    Request request = request_for(target);
    const Status status = parse_target(request);
    ASSERT_FALSE(status) << target;
    EXPECT_EQ(status.error().message, "expected a request target that starts with '/'");
  }
  Request request = request_for("*", "OPTIONS");
  EXPECT_TRUE(parse_target(request));
}

TEST(Request, PercentDecodingRefusesHalfEscapesAndBrokenUtf8) {
  EXPECT_EQ(percent_decode("a%2Fb%e2%82%ac+"), "a/b€+");
  for (const char* text : {"%", "%4", "%4g", "abc%", "a%zz"}) {
    const auto decoded = percent_decode(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().message, "expected two hex digits after '%' in the URL");
  }
  const auto broken = percent_decode("%ff");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "the URL is not valid UTF-8 once decoded");
  EXPECT_EQ(percent_decode("%41"), "A");
}

TEST(Request, ContentTypeIsComparedWithoutParametersAndCase) {
  Request request;
  request.headers = {{"content-type", "Application/JSON ; charset=utf-8"}};
  EXPECT_TRUE(require_content_type(request, "application/json"));
  request.headers = {{"content-type", "text/plain"}};
  const Status status = require_content_type(request, "application/json");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupportedMediaType);
  EXPECT_EQ(status.error().message, "expected content-type application/json; got 'text/plain'");
  request.headers.clear();
  EXPECT_EQ(require_content_type(request, "application/json").error().message,
            "expected content-type application/json; got none");
}

TEST(Request, ASaneRequestIdIsKeptAndAnyOtherReplaced) {
  EXPECT_EQ(choose_request_id("client-1:a.b_C"), "client-1:a.b_C");
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\nb"), std::string(129, 'a')}) {
    const std::string id = choose_request_id(bad);
    EXPECT_EQ(id.size(), 28U);
    EXPECT_TRUE(id.starts_with("req_"));
  }
  EXPECT_NE(choose_request_id(""), choose_request_id(""));
}

}  // namespace
}  // namespace redpoll::http
