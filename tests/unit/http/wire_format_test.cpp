#include "http/wire_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/response.h"

namespace redpoll::http {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(WireFormat, EveryLineOfAnEventIsADataField) {
  EXPECT_EQ(format_event("{}", ""), "data: {}\n\n");
  EXPECT_EQ(format_event("{}", "message_start"), "event: message_start\ndata: {}\n\n");
  EXPECT_EQ(format_event("a\nb\r\nc\rd\n", ""), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
  EXPECT_EQ(format_event("", ""), "data: \n\n");
}

TEST(WireFormat, AnEventNameCannotAddFields) { EXPECT_EQ(format_event("x", "a\ndata: y"), "event: a\ndata: x\n\n"); }

TEST(WireFormat, ACommentStaysAComment) {
  EXPECT_EQ(format_comment("wait"), ": wait\n\n");
  EXPECT_EQ(format_comment("a\ndata: b"), ": a\n: data: b\n\n");
}

TEST(WireFormat, ChunksCarryTheirHexLength) {
  EXPECT_EQ(format_chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(WireFormat, AHeadEndsWithAnEmptyLineAndHoldsWhatWasGiven) {
  ResponseHead head;
  head.status = 404;
  head.content_type = "application/json";
  head.request_id = "abc";
  head.content_length = 12;
  const std::string text = format_head(head);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 404 Not Found\r\ndate: ")) << text;
  EXPECT_TRUE(text.ends_with("content-length: 12\r\n\r\n")) << text;
  EXPECT_THAT(text, HasSubstr(" GMT\r\nx-request-id: abc\r\nx-content-type-options: nosniff\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("connection:")));
}

TEST(WireFormat, AHeaderValueCannotStartAnotherHeader) {
  ResponseHead head;
  head.headers = {{"x-note", "a\r\nset-cookie: b"}};
  EXPECT_THAT(format_head(head), HasSubstr("x-note: a  set-cookie: b\r\n"));
}

TEST(WireFormat, HtmlIsKeptOutOfForeignFrames) {
  ResponseHead head;
  head.content_type = "text/html; charset=utf-8";
  EXPECT_THAT(format_head(head), HasSubstr("x-frame-options: DENY\r\nreferrer-policy: no-referrer\r\n"));
  head.content_type = "text/plain";
  EXPECT_THAT(format_head(head), Not(HasSubstr("x-frame-options")));
}

TEST(Response, TheDefaultErrorIsJson) {
  const Response response = default_error_response({404, {ErrorCode::kNotFound, "no \"x\"", ""}, "/x", "id"});
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, R"({"error":{"message":"no \"x\"","code":"not_found"}})");
}

}  // namespace
}  // namespace redpoll::http
