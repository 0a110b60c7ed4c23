#include "cache/sequence_cache.h"

#include <gmock/gmock.h>

#include <utility>

namespace redpoll::cache {
namespace {

using testing::ElementsAre;

TEST(SequenceCacheTest, GrowsByWholeBlocks) {
  BlockPool pool(10);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(1));
  EXPECT_THAT(cache.table(), ElementsAre(0));
  EXPECT_TRUE(cache.ensure_capacity(4));
  EXPECT_EQ(cache.num_blocks(), 1);
  EXPECT_TRUE(cache.ensure_capacity(5));
  EXPECT_THAT(cache.table(), ElementsAre(0, 1));
  EXPECT_EQ(cache.capacity(), 8);
  EXPECT_EQ(cache.reachable_capacity(), 40);
}

TEST(SequenceCacheTest, TakesNothingWhenNotAllCanBeHad) {
  BlockPool pool(3);
  SequenceCache first(pool, 4);
  SequenceCache second(pool, 4);
  EXPECT_TRUE(first.ensure_capacity(8));
  EXPECT_FALSE(second.ensure_capacity(8));
  EXPECT_EQ(second.num_blocks(), 0);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(second.ensure_capacity(4));
}

TEST(SequenceCacheTest, NeverShrinksWhenLessIsAskedFor) {
  BlockPool pool(3);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(12));
  EXPECT_TRUE(cache.ensure_capacity(1));
  EXPECT_EQ(cache.num_blocks(), 3);
}

TEST(SequenceCacheTest, GivesBackWhatATruncatedSequenceDoesNotNeed) {
  BlockPool pool(3);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(12));
  cache.truncate(5);
  EXPECT_THAT(cache.table(), ElementsAre(0, 1));
  cache.truncate(8);
  EXPECT_EQ(cache.num_blocks(), 2);
  cache.release();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SequenceCacheTest, GivesEverythingBackWhenDestroyedAndNothingWhenMovedFrom) {
  BlockPool pool(4);
  {
    SequenceCache cache(pool, 4);
    EXPECT_TRUE(cache.ensure_capacity(8));
    SequenceCache moved(std::move(cache));
    EXPECT_EQ(pool.num_used(), 2);
    SequenceCache other(pool, 4);
    EXPECT_TRUE(other.ensure_capacity(4));
    other = std::move(moved);
    EXPECT_EQ(pool.num_used(), 2);
    EXPECT_THAT(other.table(), ElementsAre(0, 1));
  }
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_TRUE(pool.check_integrity());
}

TEST(SequenceCacheTest, AForkAtABlockEdgeSharesEverything) {
  BlockPool pool(4);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(12));
  const auto fork = cache.fork(8);
  ASSERT_TRUE(fork);
  EXPECT_THAT(fork->cache.table(), ElementsAre(0, 1));
  EXPECT_FALSE(fork->copy);
  EXPECT_EQ(pool.num_used(), 3);
  EXPECT_EQ(pool.num_users(1), 2);
}

TEST(SequenceCacheTest, AForkWithinABlockCopiesThatOneOnly) {
  BlockPool pool(4);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(12));
  {
    const auto fork = cache.fork(9);
    ASSERT_TRUE(fork);
    EXPECT_THAT(fork->cache.table(), ElementsAre(0, 1, 3));
    ASSERT_TRUE(fork->copy);
    EXPECT_EQ(fork->copy->from, 2);
    EXPECT_EQ(fork->copy->to, 3);
    cache.release();
    EXPECT_EQ(pool.num_used(), 3);
  }
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SequenceCacheTest, AForkThatLacksABlockLeavesTheBooksAsTheyWere) {
  BlockPool pool(3);
  SequenceCache cache(pool, 4);
  EXPECT_TRUE(cache.ensure_capacity(12));
  EXPECT_FALSE(cache.fork(9));
  EXPECT_EQ(pool.num_users(0), 1);
  EXPECT_TRUE(pool.check_integrity());
  EXPECT_TRUE(cache.fork(0));
}

}  // namespace
}  // namespace redpoll::cache
