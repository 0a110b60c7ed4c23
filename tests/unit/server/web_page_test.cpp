#include "server/web_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace redpoll::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(WebPageTest, SaysWhatIsServedAndHowToCallIt) {
  const std::string page = web_page({"1.2", "tiny", 2048, "http://127.0.0.1:8080", false}, "n");
  EXPECT_THAT(page, HasSubstr("<strong>tiny</strong>"));
  EXPECT_THAT(page, HasSubstr("2048 tokens"));
  EXPECT_THAT(page, HasSubstr("curl http://127.0.0.1:8080/v1/chat/completions"));
  EXPECT_THAT(page, HasSubstr("href=\"/stats\""));
  EXPECT_THAT(page, Not(HasSubstr("Bearer")));
}

TEST(WebPageTest, ShowsTheKeyHeaderOnlyWhereOneIsNeeded) {
  EXPECT_THAT(web_page({"1", "m", 1, "http://h", true}, "n"), HasSubstr("Authorization: Bearer &lt;key&gt;"));
}

TEST(WebPageTest, EscapesWhatOthersNamed) {
  const std::string page = web_page({"1", "<script>alert(1)</script>", 1, "http://\"><img>", false}, "n");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img>")));
}

TEST(WebPageTest, LoadsNothingAndItsPolicyAllowsNothingElse) {
  const std::string page = web_page({"1", "m", 1, "http://h", false}, "abc");
  EXPECT_THAT(page, HasSubstr("<style nonce=\"abc\">"));
  for (const char* loader : {"<script", "<link", "src=", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(loader)));
  EXPECT_EQ(web_page_policy("abc"),
            "default-src 'none'; style-src 'nonce-abc'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

}  // namespace
}  // namespace redpoll::server
