#include "http/security.h"

#include <gtest/gtest.h>

namespace redpoll::http {
namespace {

Status host_check(std::string_view header, std::vector<std::string> allowed = {},
                  std::string_view bound = "127.0.0.1") {
  SecurityOptions options;
  options.allow_hosts = std::move(allowed);
  return check_host(options, header, bound, "192.168.1.5");
}

Result<OriginKind> origin_check(std::string origin, std::string_view host, std::vector<std::string> allowed = {}) {
  SecurityOptions options;
  options.allow_origins = std::move(allowed);
  return check_origin(options, {{"Origin", std::move(origin)}}, host);
}

Status key_check(std::vector<Header> headers, std::string method = "POST", std::string path = "/v1/x") {
  SecurityOptions options;
  options.api_keys = {"sk-one", "sk-two"};
  Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.headers = std::move(headers);
  return check_api_key(options, ApiKeys(options.api_keys), request);
}

TEST(Authority, IsReadWithAndWithoutPort) {
  EXPECT_EQ(parse_authority("LocalHost:8080")->host, "localhost");
  EXPECT_EQ(parse_authority("LocalHost:8080")->port, 8080);
  EXPECT_EQ(parse_authority("example.com.")->host, "example.com");
  EXPECT_EQ(parse_authority("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_authority("[::1]")->port, 0);
}

TEST(Authority, RefusesWhatIsNotHostAndPort) {
  for (const char* text :
       {"", ":80", "a:", "a:b", "a:70000", "a:80x", "[::1", "[::1]80", "::1", "u@h", "a/b", "a b", "."}) {
    const auto authority = parse_authority(text);
    ASSERT_FALSE(authority) << text;
    EXPECT_EQ(authority.error().message, "expected host or host:port; got '" + std::string(text) + "'");
  }
}

TEST(HostCheck, AllowsLoopbackNamesWithAnyPort) {
  for (const char* host :
       {"localhost", "localhost:9", "LOCALHOST", "app.localhost", "127.0.0.1:1", "127.8.9.1", "[::1]:8080"}) {
    EXPECT_TRUE(host_check(host)) << host;
  }
}

TEST(HostCheck, AllowsTheBoundHostAndTheAddressConnectedTo) {
  EXPECT_TRUE(host_check("box.lan:8080", {}, "box.lan"));
  EXPECT_TRUE(host_check("192.168.1.5:8080", {}, "0.0.0.0"));
  EXPECT_FALSE(host_check("192.168.1.6:8080", {}, "0.0.0.0"));
}

TEST(HostCheck, RefusesForeignAndMissingHosts) {
  EXPECT_EQ(host_check("").error().message, "expected a Host header; got none");
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0", "1127.0.0.1",
                           "127.0.0.256", "notlocalhost"}) {
    const Status status = host_check(host);
    ASSERT_FALSE(status) << host;
    EXPECT_EQ(status.error().code, ErrorCode::kForbidden);
    EXPECT_EQ(status.error().message,
              "the host '" + std::string(host) + "' is not allowed; allow it with --allow-host");
  }
}

TEST(HostCheck, AllowsWhatIsListed) {
  EXPECT_TRUE(host_check("My.Example:1", {"my.example"}));
  EXPECT_TRUE(host_check("my.example:1", {"my.example:1"}));
  EXPECT_FALSE(host_check("my.example:2", {"my.example:1"}));
  EXPECT_TRUE(host_check("anything.example", {"*"}));
  EXPECT_TRUE(host_check("", {"*"}));
}

TEST(OriginCheck, OnlyTheServersOwnPagesAndListedOnesPass) {
  EXPECT_EQ(check_origin({}, {}, "localhost"), OriginKind::kNone);
  EXPECT_EQ(origin_check("http://localhost:8080", "localhost:8080"), OriginKind::kSame);
  EXPECT_EQ(origin_check("https://box.lan", "box.lan"), OriginKind::kSame);
  EXPECT_EQ(origin_check("http://box.lan", "box.lan:80"), OriginKind::kSame);
  EXPECT_EQ(origin_check("https://app.example", "localhost", {"https://app.example"}), OriginKind::kAllowed);
  EXPECT_EQ(origin_check("null", "localhost", {"*"}), OriginKind::kAllowed);
}

TEST(OriginCheck, RefusesEveryOther) {
  for (const char* origin : {"https://evil.example", "http://localhost:3000", "null", "http://localhost", "file://",
                             "https://app.example.evil", ""}) {
    const auto kind = origin_check(origin, "localhost:8080", {"https://app.example"});
    ASSERT_FALSE(kind) << origin;
    EXPECT_EQ(kind.error().message,
              "the origin '" + std::string(origin) + "' is not allowed; allow it with --allow-origin");
  }
}

TEST(ApiKey, IsTakenFromEitherHeader) {
  EXPECT_TRUE(key_check({{"Authorization", "Bearer sk-one"}}));
  EXPECT_TRUE(key_check({{"authorization", "bearer  sk-two"}}));
  EXPECT_TRUE(key_check({{"X-Api-Key", "sk-two"}}));
}

TEST(ApiKey, MissingOrWrongIsRefusedWithoutRepeatingIt) {
  EXPECT_EQ(key_check({}).error().message,
            "expected an API key in 'Authorization: Bearer <key>' or 'x-api-key: <key>'; got none");
  EXPECT_EQ(key_check({{"authorization", "Basic sk-one"}}).error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(key_check({{"authorization", "Bearer "}}).error().code, ErrorCode::kUnauthorized);
  for (const char* key : {"sk-", "sk-one ", "sk-one1", "SK-ONE", "x"}) {
    const Status status = key_check({{"authorization", std::string("Bearer ") + key}});
    ASSERT_FALSE(status) << key;
    EXPECT_EQ(status.error().message, "the API key is not one of this server's");
  }
}

TEST(ApiKey, IsNotAskedForWhereNoneIsNeeded) {
  EXPECT_TRUE(key_check({}, "GET", "/health"));
  EXPECT_TRUE(key_check({}, "HEAD", "/"));
  EXPECT_FALSE(key_check({}, "POST", "/health"));
  EXPECT_FALSE(key_check({}, "GET", "/healthy"));
  Request request;
  EXPECT_TRUE(check_api_key({}, ApiKeys({}), request));
}

}  // namespace
}  // namespace redpoll::http
