#include "cache/block_pool.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace redpoll::cache {
namespace {

TEST(BlockPoolTest, GivesOutTheLowestFreeBlock) {
  BlockPool pool(4);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 2);
  pool.release(1);
  pool.release(0);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 3);
}

TEST(BlockPoolTest, HasNothingToGiveWhenAllAreInUse) {
  BlockPool pool(1);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(BlockPool(0).allocate(), std::nullopt);
}

TEST(BlockPoolTest, FreesASharedBlockWithItsLastUser) {
  BlockPool pool(2);
  const BlockId block = *pool.allocate();
  pool.share(block);
  EXPECT_EQ(pool.num_users(block), 2);
  pool.release(block);
  EXPECT_EQ(pool.num_used(), 1);
  pool.release(block);
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(BlockPoolDeathTest, EndsTheProgramWhenABlockIsReleasedTwice) {
  BlockPool pool(1);
  pool.release(*pool.allocate());
  EXPECT_DEATH(pool.release(0), "released more often than it was taken");
  EXPECT_DEATH(pool.share(0), "only a block in use can be shared");
  EXPECT_DEATH(pool.release(1), "no such block");
}

TEST(BlockPoolTest, KeepsItsBooksThroughRandomUse) {
  std::mt19937 random(7);
  BlockPool pool(50);
  std::vector<BlockId> held;  // one entry per user
  for (int i = 0; i < 20'000; ++i) {
    const auto pick = [&] { return std::uniform_int_distribution<std::size_t>(0, held.size() - 1)(random); };
    switch (held.empty() ? 0 : random() % 4) {
      case 0:
      case 1:
        if (const auto block = pool.allocate()) {
          EXPECT_EQ(std::ranges::count(held, *block), 0);
          held.push_back(*block);
        }
        break;
      case 2:
        held.push_back(held[pick()]);
        pool.share(held.back());
        break;
      default: {
        const std::size_t index = pick();
        pool.release(held[index]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
      }
    }
    if (i % 100 != 0) continue;
    const Status integrity = pool.check_integrity();
    ASSERT_TRUE(integrity) << integrity.error().message;
    for (BlockId block = 0; block < 50; ++block) EXPECT_EQ(pool.num_users(block), std::ranges::count(held, block));
  }
}

}  // namespace
}  // namespace redpoll::cache
