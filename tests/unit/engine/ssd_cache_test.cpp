// What a limit on the files of the disk tier must leave room for, computed by hand from docs/formats/kv-cache-files.md:
// a header of 4,096 bytes for up to 992 tokens, then the blocks.
#include "engine/disk/ssd_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace redpoll::engine {
namespace {

constexpr int kBlockTokens = 32;
constexpr cache::GroupPool kFull = {.num_blocks = 4};
constexpr cache::GroupPool kWindow = {.window = 64, .num_blocks = 4};  // in three blocks
constexpr cache::GroupPool kState = {.kind = cache::CacheKind::kRecurrent, .num_blocks = 4};

/// The least limit that is allowed, by trying the one below.
void expect_least(std::uint64_t least, const std::vector<cache::GroupPool>& groups,
                  const std::vector<std::size_t>& block_bytes) {
  const cache::CachePools pools(kBlockTokens, groups);
  SsdCacheOptions options{.directory = "somewhere", .max_bytes = least, .run_blocks = 8};
  EXPECT_TRUE(check_max_bytes(options, pools, block_bytes)) << least;
  --options.max_bytes;
  const Status refused = check_max_bytes(options, pools, block_bytes);
  ASSERT_FALSE(refused) << least;
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().param, "ssd-cache-max");
  EXPECT_EQ(refused.error().message, "--ssd-cache-max allows " + std::to_string(least - 1) +
                                         " bytes, and of this model 256 tokens take " + std::to_string(least) +
                                         ": nothing could be kept; raise it, or leave out --ssd-cache");
}

TEST(SsdCacheTest, ALimitLeavesRoomForWhatCanBeGoneOnFrom) {
  expect_least(4096 + 8 * 1000, {kFull}, {1000});
  expect_least(4096 + 3 * 500, {kWindow}, {500});
  expect_least(4096 + 7000, {kState}, {7000});
  expect_least((4096 + 8 * 1000) + (4096 + 3 * 500 + 7000), {kFull, kWindow, kState}, {1000, 500, 7000});
}

TEST(SsdCacheTest, AFolderThatCannotBeUsedIsNamedWithTheFlag) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(check_directory({.directory = folder.path() / "cache"}));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const auto refused = check_directory({.directory = folder.path()});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("--ssd-cache: " + folder.path().string() + ": expected a folder"));
  EXPECT_EQ(refused.error().param, "ssd-cache");
}

}  // namespace
}  // namespace redpoll::engine
