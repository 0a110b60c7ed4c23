#include "http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace redpoll::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

Handler nothing() {
  return [](Request&, Exchange&) -> Task<Response> { co_return Response{}; };
}

Router example() {
  Router router;
  router.add("GET", "/v1/models/{id}", nothing());
  router.add("POST", "/v1/models/load", nothing());
  router.add("GET", "/v1/models", nothing());
  router.add("POST", "/v1/models", nothing());
  router.add("GET", "/jobs/{job}/events", nothing());
  router.add("GET", "/", nothing());
  return router;
}

TEST(Router, FindsByMethodAndPath) {
  const Router router = example();
  EXPECT_NE(router.find("GET", "/")->handler, nullptr);
  EXPECT_NE(router.find("GET", "/v1/models")->handler, nullptr);
  EXPECT_NE(router.find("GET", "/v1/models")->handler, router.find("POST", "/v1/models")->handler);
}

TEST(Router, TheLastParameterTakesSlashesAndIsDecoded) {
  const Router router = example();
  EXPECT_THAT(router.find("GET", "/v1/models/org/name")->parameters, ElementsAre(Pair("id", "org/name")));
  EXPECT_THAT(router.find("GET", "/v1/models/org%2Fna%20me")->parameters, ElementsAre(Pair("id", "org/na me")));
}

TEST(Router, AnInnerParameterTakesOneSegment) {
  const Router router = example();
  EXPECT_THAT(router.find("GET", "/jobs/a%2Fb/events")->parameters, ElementsAre(Pair("job", "a/b")));
  EXPECT_EQ(router.find("GET", "/jobs/a/b/events")->handler, nullptr);
}

TEST(Router, LiteralSegmentsWinOverParameters) {
  const Router router = example();
  EXPECT_THAT(router.find("POST", "/v1/models/load")->parameters, IsEmpty());
  EXPECT_THAT(router.find("GET", "/v1/models/load")->parameters, ElementsAre(Pair("id", "load")));
}

TEST(Router, AnUnknownPathAllowsNothing) {
  const Router router = example();
  for (const char* path : {"/v1", "/v1/models/", "/v2/models", "/jobs//events", "//"}) {
    const auto match = router.find("GET", path);
    ASSERT_TRUE(match) << path;
    EXPECT_EQ(match->handler, nullptr) << path;
    EXPECT_EQ(match->allowed_methods, "") << path;
  }
}

TEST(Router, AKnownPathNamesItsMethods) {
  const Router router = example();
  const auto match = router.find("DELETE", "/v1/models");
  EXPECT_EQ(match->handler, nullptr);
  EXPECT_EQ(match->allowed_methods, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(router.find("PUT", "/v1/models/x")->allowed_methods, "GET, HEAD, OPTIONS");
}

TEST(Router, HeadIsServedByGet) {
  const Router router = example();
  EXPECT_EQ(router.find("HEAD", "/v1/models")->handler, router.find("GET", "/v1/models")->handler);
}

TEST(Router, AMalformedEscapeIsAnError) {
  EXPECT_EQ(example().find("GET", "/v1/models/%zz").error().message, "expected two hex digits after '%' in the URL");
}

TEST(RouterDeathTest, ARouteIsAddedOnce) {
  Router router = example();
  EXPECT_DEATH(router.add("GET", "/v1/models", nothing()), "a route is added once");
}

}  // namespace
}  // namespace redpoll::http
