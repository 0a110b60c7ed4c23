#include "cache/sequence_cache.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace redpoll::cache {
namespace {

using testing::ElementsAre;

constexpr int kBlockTokens = 4;

/// A pool of `num_blocks` for each of these windows.
CachePools make_pools(const std::vector<int>& windows, int num_blocks) {
  std::vector<GroupPool> groups;
  for (const int window : windows) groups.push_back({.window = window, .num_blocks = num_blocks});
  return {kBlockTokens, groups};
}

/// As a step does.
void compute(SequenceCache& cache, int num_tokens) {
  ASSERT_TRUE(cache.ensure_capacity(cache.num_computed() + num_tokens));
  cache.advance(num_tokens);
}

TEST(SequenceCacheTest, GrowsByWholeBlocks) {
  CachePools pools = make_pools({0}, 10);
  SequenceCache cache(pools);
  EXPECT_TRUE(cache.ensure_capacity(1));
  EXPECT_THAT(cache.table(0), ElementsAre(0));
  EXPECT_TRUE(cache.ensure_capacity(4));
  EXPECT_EQ(cache.num_held(), 1);
  EXPECT_TRUE(cache.ensure_capacity(5));
  EXPECT_THAT(cache.table(0), ElementsAre(0, 1));
  EXPECT_EQ(cache.capacity(), 8);
  EXPECT_EQ(cache.reachable_capacity(), 40);
}

TEST(SequenceCacheTest, TakesNothingWhenNotAllCanBeHad) {
  CachePools pools = make_pools({0}, 3);
  BlockPool& pool = pools.pool(0);
  SequenceCache first(pools);
  SequenceCache second(pools);
  EXPECT_TRUE(first.ensure_capacity(8));
  EXPECT_FALSE(second.ensure_capacity(8));
  EXPECT_EQ(second.num_held(), 0);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(second.ensure_capacity(4));
}

TEST(SequenceCacheTest, NeverShrinksWhenLessIsAskedFor) {
  CachePools pools = make_pools({0}, 3);
  SequenceCache cache(pools);
  EXPECT_TRUE(cache.ensure_capacity(12));
  EXPECT_TRUE(cache.ensure_capacity(1));
  EXPECT_EQ(cache.num_held(), 3);
}

TEST(SequenceCacheTest, GivesBackWhatATruncatedSequenceDoesNotNeed) {
  CachePools pools = make_pools({0}, 3);
  BlockPool& pool = pools.pool(0);
  SequenceCache cache(pools);
  compute(cache, 12);
  cache.truncate(5);
  EXPECT_THAT(cache.table(0), ElementsAre(0, 1));
  EXPECT_EQ(cache.num_computed(), 5);
  cache.truncate(4);
  EXPECT_THAT(cache.table(0), ElementsAre(0));
  cache.release();
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SequenceCacheTest, GivesEverythingBackWhenDestroyedAndNothingWhenMovedFrom) {
  CachePools pools = make_pools({0}, 4);
  BlockPool& pool = pools.pool(0);
  {
    SequenceCache cache(pools);
    EXPECT_TRUE(cache.ensure_capacity(8));
    SequenceCache moved(std::move(cache));
    EXPECT_EQ(pool.num_used(), 2);
    SequenceCache other(pools);
    EXPECT_TRUE(other.ensure_capacity(4));
    other = std::move(moved);
    EXPECT_EQ(pool.num_used(), 2);
    EXPECT_THAT(other.table(0), ElementsAre(0, 1));
  }
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_TRUE(pool.check_integrity());
}

TEST(SequenceCacheTest, AForkAtABlockEdgeSharesEverything) {
  CachePools pools = make_pools({0}, 4);
  BlockPool& pool = pools.pool(0);
  SequenceCache cache(pools);
  compute(cache, 12);
  const auto fork = cache.fork(8);
  ASSERT_TRUE(fork);
  EXPECT_THAT(fork->cache.table(0), ElementsAre(0, 1));
  EXPECT_TRUE(fork->copies.empty());
  EXPECT_EQ(fork->cache.num_computed(), 8);
  EXPECT_EQ(pool.num_used(), 3);
  EXPECT_EQ(pool.num_users(1), 2);
}

TEST(SequenceCacheTest, AForkWithinABlockCopiesThatOneOnly) {
  CachePools pools = make_pools({0}, 4);
  BlockPool& pool = pools.pool(0);
  SequenceCache cache(pools);
  compute(cache, 12);
  {
    const auto fork = cache.fork(9);
    ASSERT_TRUE(fork);
    EXPECT_THAT(fork->cache.table(0), ElementsAre(0, 1, 3));
    ASSERT_EQ(fork->copies.size(), 1U);
    EXPECT_EQ(fork->copies[0].group, 0);
    EXPECT_EQ(fork->copies[0].from, 2);
    EXPECT_EQ(fork->copies[0].to, 3);
    cache.release();
    EXPECT_EQ(pool.num_used(), 3);
  }
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(SequenceCacheTest, AForkThatLacksABlockLeavesTheBooksAsTheyWere) {
  CachePools pools = make_pools({0}, 3);
  BlockPool& pool = pools.pool(0);
  SequenceCache cache(pools);
  compute(cache, 12);
  EXPECT_FALSE(cache.fork(9));
  EXPECT_EQ(pool.num_users(0), 1);
  EXPECT_TRUE(pool.check_integrity());
  EXPECT_TRUE(cache.fork(0));
}

TEST(SequenceCacheTest, LeavesBehindWhatNoLaterTokenSees) {
  CachePools pools = make_pools({0, 5}, 10);
  SequenceCache cache(pools);
  compute(cache, 7);  // the next token, at 7, sees 3 to 7
  EXPECT_THAT(cache.table(1), ElementsAre(0, 1));
  compute(cache, 1);  // and this one 4 to 8
  EXPECT_THAT(cache.table(0), ElementsAre(0, 1));
  EXPECT_THAT(cache.table(1), ElementsAre(kNoBlock, 1));
  EXPECT_EQ(pools.pool(1).num_used(), 1);
  compute(cache, 12);  // a chunk longer than the window has a place for all of it while it is computed
  EXPECT_THAT(cache.table(1), ElementsAre(kNoBlock, kNoBlock, kNoBlock, kNoBlock, 3));
  EXPECT_EQ(cache.num_held(), 5 + 1);
  EXPECT_EQ(cache.capacity(), 20);
  cache.release();
  EXPECT_EQ(pools.num_used(), 0);
  EXPECT_TRUE(cache.table(1).empty());
  compute(cache, 3);
  EXPECT_THAT(cache.table(1), ElementsAre(0));
}

TEST(SequenceCacheTest, TakesBlocksOfAllGroupsOrOfNone) {
  const std::vector<GroupPool> groups{{.window = 0, .num_blocks = 10}, {.window = 5, .num_blocks = 2}};
  CachePools pools(kBlockTokens, groups);
  SequenceCache cache(pools);
  EXPECT_FALSE(cache.ensure_capacity(9));
  EXPECT_EQ(pools.num_used(), 0);
  EXPECT_EQ(cache.reachable_capacity(), 8);
  compute(cache, 8);
  EXPECT_EQ(cache.reachable_capacity(), 12) << "one block was left behind";
}

TEST(SequenceCacheTest, CannotGoBackToWhatItHasLeftBehind) {
  CachePools pools = make_pools({0, 5}, 20);
  SequenceCache cache(pools);
  compute(cache, 20);
  EXPECT_TRUE(cache.can_resume_at(20));
  EXPECT_FALSE(cache.can_resume_at(21)) << "not computed";
  EXPECT_FALSE(cache.can_resume_at(19)) << "whose token sees one at 15";
  EXPECT_TRUE(cache.can_resume_at(0));
  compute(cache, 3);
  EXPECT_TRUE(cache.can_resume_at(21));
  cache.truncate(21);
  EXPECT_EQ(cache.num_computed(), 21);
  EXPECT_TRUE(cache.ensure_capacity(24));
  cache.truncate(0);
  EXPECT_EQ(pools.num_used(), 0);
}

TEST(SequenceCacheTest, AForkSharesOnlyWhatItStillSees) {
  CachePools pools = make_pools({0, 9}, 20);
  SequenceCache cache(pools);
  compute(cache, 18);  // a token at 18 sees 10 to 18
  ASSERT_EQ(cache.num_shared(1, 18), 2);
  const auto fork = cache.fork(18);
  ASSERT_TRUE(fork);
  EXPECT_THAT(fork->cache.table(0), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(fork->cache.table(1), ElementsAre(kNoBlock, kNoBlock, 2, 3, 0)) << "the lowest that was left behind";
  ASSERT_EQ(fork->copies.size(), 2U);
  EXPECT_EQ(fork->copies[1].group, 1);
  EXPECT_EQ(fork->copies[1].from, 4);
  EXPECT_EQ(fork->copies[1].to, 0);
  EXPECT_EQ(pools.pool(1).num_users(3), 2);
  cache.release();
  EXPECT_EQ(pools.pool(1).num_used(), 3);
}

TEST(SequenceCacheTest, CountsWhatAGroupStillNeeds) {
  CachePools pools = make_pools({0, 9}, 20);
  SequenceCache cache(pools);
  EXPECT_EQ(cache.num_missing(0, 40), 10);
  EXPECT_EQ(cache.num_missing(1, 40), 3) << "nine tokens stand in three blocks at most";
  EXPECT_EQ(cache.num_missing(1, 5), 2);
  compute(cache, 18);
  EXPECT_EQ(cache.num_missing(0, 40), 5);
  EXPECT_EQ(cache.num_missing(1, 40), 0);
  EXPECT_EQ(cache.num_missing(1, 20), 0);
}

/// All tokens, and states.
CachePools with_states(int num_blocks, int num_states) {
  const std::vector<GroupPool> groups{{.num_blocks = num_blocks},
                                      {.kind = CacheKind::kRecurrent, .num_blocks = num_states}};
  return {kBlockTokens, groups};
}

TEST(SequenceCacheTest, HasOneStateHoweverManyTokens) {
  CachePools pools = with_states(10, 1);
  SequenceCache cache(pools);
  EXPECT_TRUE(cache.ensure_capacity(0));
  EXPECT_EQ(pools.num_used(), 0);
  compute(cache, 3);
  compute(cache, 20);
  EXPECT_THAT(cache.table(1), ElementsAre(0));
  EXPECT_EQ(cache.capacity(), 24);
  EXPECT_EQ(cache.num_missing(1, 40), 0);
  SequenceCache other(pools);
  EXPECT_EQ(other.num_missing(1, 40), 1);
  EXPECT_FALSE(other.ensure_capacity(1)) << "there is no other state";
  EXPECT_EQ(other.reachable_capacity(), 0);
  cache.release();
  EXPECT_TRUE(other.ensure_capacity(1));
}

TEST(SequenceCacheTest, AStateCannotGoBackAndIsCopiedByAFork) {
  CachePools pools = with_states(10, 2);
  SequenceCache cache(pools);
  compute(cache, 8);
  EXPECT_TRUE(cache.can_resume_at(8));
  EXPECT_FALSE(cache.can_resume_at(7));
  EXPECT_EQ(cache.num_shared(1, 8), 0);
  {
    const auto fork = cache.fork(8);
    ASSERT_TRUE(fork);
    EXPECT_THAT(fork->cache.table(0), ElementsAre(0, 1));
    EXPECT_THAT(fork->cache.table(1), ElementsAre(1));
    ASSERT_EQ(fork->copies.size(), 1U);
    EXPECT_EQ(fork->copies[0].group, 1);
    EXPECT_EQ(fork->copies[0].from, 0);
    EXPECT_EQ(fork->copies[0].to, 1);
    EXPECT_FALSE(cache.fork(8)) << "no third state";
    EXPECT_EQ(pools.pool(0).num_users(1), 2) << "and nothing was taken for it";
  }
  EXPECT_EQ(pools.num_used(), 3);
}

}  // namespace
}  // namespace redpoll::cache
