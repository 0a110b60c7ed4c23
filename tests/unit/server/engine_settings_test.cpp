// What EngineSettings derive from what was set.
#include <gtest/gtest.h>

#include "server/options.h"

namespace redpoll::server {
namespace {

TEST(EngineSettingsTest, AStepLeavesHalfOfItselfToPromptsUnlessItsLengthIsSet) {
  EXPECT_EQ(EngineSettings{}.tokens_in_step(), 256);
  EXPECT_EQ((EngineSettings{.max_batch = 128}).tokens_in_step(), 256);
  EXPECT_EQ((EngineSettings{.max_batch = 256}).tokens_in_step(), 512);
  EXPECT_EQ((EngineSettings{.max_batch = 256, .step_tokens = 300}).tokens_in_step(), 300);
}

}  // namespace
}  // namespace redpoll::server
