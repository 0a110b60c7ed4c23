#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace redpoll {
namespace {

TEST(EditDistanceTest, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("serve", "serve"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("sevre", "serve"), 2U);
  EXPECT_EQ(edit_distance("serv", "serve"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistanceTest, IsTheSameBothWays) {
  EXPECT_EQ(edit_distance("generate", "rate"), edit_distance("rate", "generate"));
}

}  // namespace
}  // namespace redpoll
