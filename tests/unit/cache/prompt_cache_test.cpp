// The rules of the prompt cache one by one; prompt_cache_oracle_test.cpp has them all at once.
#include "cache/prompt_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

namespace redpoll::cache {
namespace {

constexpr int kBlockTokens = 4;
constexpr std::size_t kBlockBytes = 100;

const std::vector<GroupPool> kFull = {{.num_blocks = 1000}};
const std::vector<GroupPool> kWindowed = {{.num_blocks = 1000}, {.window = 10, .num_blocks = 1000}};
const std::vector<GroupPool> kRecurrent = {{.num_blocks = 1000}, {.kind = CacheKind::kRecurrent, .num_blocks = 1000}};

using Tokens = std::vector<TokenId>;

/// As a sequence would have it that was computed in steps of up to `chunk` tokens, from `begin` on if that is there.
SequenceCache computed(CachePools& pools, int num_tokens, int chunk = 7) {
  SequenceCache cache(pools);
  while (cache.num_computed() < num_tokens) {
    const int step = std::min(chunk, num_tokens - cache.num_computed());
    EXPECT_TRUE(cache.ensure_capacity(cache.num_computed() + step));
    cache.advance(step);
  }
  return cache;
}

class PromptCacheTest : public testing::Test {
 protected:
  void insert(const Tokens& tokens) { cache_.insert(tokens, computed(pools_, static_cast<int>(tokens.size()))); }

  CachePools pools_{kBlockTokens, kFull};
  PromptCache cache_{pools_, {kBlockBytes}, 1'000};
};

TEST_F(PromptCacheTest, SharesWholeBlocksAndCopiesTheLast) {
  insert({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto fork = cache_.take(Tokens{1, 2, 3, 4, 5, 6, 0}, 6);
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->cache.num_computed(), 6);
  EXPECT_EQ(fork->copies.size(), 1U);  // of tokens 5 and 6
  EXPECT_EQ(pools_.num_used(), 3 + 1);
  EXPECT_EQ(cache_.num_shared(0, Tokens{1, 2, 3, 4, 5, 6, 0}, 6), 1);
  EXPECT_EQ(cache_.stats().hit_tokens, 6U);
}

TEST_F(PromptCacheTest, TheBeginningOfAnotherEntryIsNotKept) {
  insert({1, 2, 3, 4, 5});
  insert({1, 2, 3});
  EXPECT_EQ(cache_.stats().entries, 1);
  insert({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(cache_.stats().entries, 1);
  EXPECT_EQ(cache_.stats().bytes, 2 * kBlockBytes);
  insert({1, 2, 8});
  EXPECT_EQ(cache_.stats().entries, 2);
}

TEST_F(PromptCacheTest, TheLeastRecentlyUsedIsEvictedFirst) {
  insert({1, 1});
  insert({2, 2});
  insert({3, 3});
  EXPECT_EQ(cache_.find(Tokens{1, 1, 5}, 3), 2);
  EXPECT_TRUE(cache_.evict());
  EXPECT_EQ(cache_.find(Tokens{2, 2}, 2), 0);
  EXPECT_TRUE(cache_.evict());
  EXPECT_EQ(cache_.find(Tokens{3, 3}, 2), 0);
  EXPECT_EQ(cache_.find(Tokens{1, 1}, 2), 2);
  EXPECT_TRUE(cache_.evict());
  EXPECT_FALSE(cache_.evict());
  EXPECT_EQ(pools_.num_used(), 0);
  EXPECT_EQ(cache_.stats().bytes, 0U);
}

TEST_F(PromptCacheTest, HoldsNoMoreBytesThanItMay) {
  for (TokenId first = 0; first < 8; ++first) insert({first, 1, 2, 3, 4, 5, 6, 7});  // two blocks each
  EXPECT_EQ(cache_.stats().entries, 5);
  EXPECT_EQ(cache_.stats().bytes, 1'000U);
  EXPECT_EQ(cache_.find(Tokens{2, 1}, 2), 0);
  EXPECT_EQ(cache_.find(Tokens{3, 1}, 2), 2);
}

TEST_F(PromptCacheTest, BlocksThatEntriesShareCountOnce) {
  insert({1, 2, 3, 4, 5, 6, 7, 8});
  auto fork = cache_.take(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9}, 8);
  ASSERT_TRUE(fork && fork->cache.ensure_capacity(9));
  fork->cache.advance(1);
  insert({1, 2, 3, 4, 0});
  EXPECT_EQ(cache_.stats().bytes, 4 * kBlockBytes);  // computed anew, it shares nothing
  cache_.insert(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9}, std::move(fork->cache));
  EXPECT_EQ(cache_.stats().bytes, 5 * kBlockBytes);
  EXPECT_TRUE(cache_.evict());
  EXPECT_EQ(cache_.stats().bytes, 3 * kBlockBytes);
}

TEST(PromptCacheStateTest, AStateIsGoneOnFromAtItsOwnEndOnly) {
  CachePools pools(kBlockTokens, kRecurrent);
  PromptCache cache(pools, {kBlockBytes, kBlockBytes}, 10'000);
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  cache.insert(tokens, computed(pools, 6));
  EXPECT_EQ(cache.find(Tokens{1, 2, 3, 4, 5}, 5), 0);
  EXPECT_EQ(cache.find(tokens, 5), 0);
  EXPECT_EQ(cache.find(Tokens{1, 2, 3, 4, 5, 6, 7}, 6), 6);
  cache.insert(Tokens{1, 2, 3}, computed(pools, 3));  // another place
  EXPECT_EQ(cache.stats().entries, 2);
  EXPECT_EQ(cache.find(Tokens{1, 2, 3, 9}, 3), 3);
  EXPECT_EQ(cache.entry_of(Tokens{}), nullptr) << "of no tokens nothing is kept";
}

TEST_F(PromptCacheTest, BooksThatDoNotAddUpAreSeen) {
  insert({1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(cache_.check_integrity());
  const SequenceCache* entry = cache_.entry_of(Tokens{1, 2, 3, 4, 5, 6});
  ASSERT_NE(entry, nullptr);
  SequenceCache other = computed(pools_, 6);
  std::swap(const_cast<SequenceCache&>(*entry), other);  // as many tokens, in blocks that have not been counted
  const Status integrity = cache_.check_integrity();
  ASSERT_FALSE(integrity);
  EXPECT_THAT(integrity.error().message, testing::HasSubstr("block 0 of group 0: expected 0 entries"));
  std::swap(const_cast<SequenceCache&>(*entry), other);
  EXPECT_TRUE(cache_.check_integrity());
}

class Listener final : public PromptCacheObserver {
 public:
  void on_insert(std::span<const TokenId> tokens) override { inserted.emplace_back(tokens.begin(), tokens.end()); }
  void on_evict(std::span<const TokenId> tokens, const SequenceCache& cache) override {
    EXPECT_EQ(cache.num_computed(), static_cast<int>(tokens.size()));
    evicted.emplace_back(tokens.begin(), tokens.end());
  }
  bool give_up() override { return std::exchange(has_blocks, false); }
  void on_distrust() override { ++num_distrusts; }

  std::vector<Tokens> inserted, evicted;
  bool has_blocks = false;
  int num_distrusts = 0;
};

TEST(PromptCacheObserverTest, IsToldOfEvictionsOfWhatIsWritten) {
  CachePools pools(kBlockTokens, kRecurrent);
  PromptCache cache(pools, {kBlockBytes, kBlockBytes}, 1'000'000);
  Listener listener;
  cache.set_observer(&listener);
  const Tokens first = {1, 2, 3, 4, 5};
  const Tokens second = {1, 2, 9, 9, 9, 9, 9};
  cache.insert(first, computed(pools, 5));
  cache.settle();
  cache.insert(second, computed(pools, 7));
  EXPECT_THAT(listener.inserted, testing::ElementsAre(first, second));
  EXPECT_TRUE(cache.evict());
  EXPECT_TRUE(cache.evict()) << "whose contents are not there yet";
  EXPECT_THAT(listener.evicted, testing::ElementsAre(first));

  listener.has_blocks = true;
  EXPECT_TRUE(cache.evict()) << "blocks of an entry to come";
  EXPECT_FALSE(cache.evict());
  cache.insert(first, computed(pools, 5));
  cache.distrust();
  EXPECT_EQ(listener.num_distrusts, 1);
  EXPECT_TRUE(cache.empty());
  EXPECT_EQ(listener.evicted.size(), 1U) << "what is not trusted is not kept elsewhere";
  cache.set_observer(nullptr);
}

TEST(PromptCacheLookTest, LookingMakesNothingRecentlyUsed) {
  CachePools pools(kBlockTokens, kRecurrent);
  PromptCache cache(pools, {kBlockBytes, kBlockBytes}, 1'000'000);
  const Tokens first = {1, 2, 3, 4, 5};
  const Tokens second = {7, 7, 7};
  cache.insert(first, computed(pools, 5));
  cache.insert(second, computed(pools, 3));
  const PromptCache::Beginning beginning = cache.look_at(Tokens{1, 2, 3, 4, 5, 6}, 5);
  EXPECT_EQ(beginning.num_resumable, 5);
  EXPECT_EQ(beginning.num_common, 5);
  EXPECT_FALSE(beginning.next);
  EXPECT_EQ(cache.look_at(Tokens{1, 2, 8}, 2).next, 3);
  EXPECT_TRUE(cache.evict());
  EXPECT_EQ(cache.find(first, 5), 0) << "the oldest went, although it was looked at";
  EXPECT_EQ(cache.find(second, 3), 3);
}

TEST(PromptCacheLookTest, EntriesComeByTheirLastUse) {
  CachePools pools(kBlockTokens, kFull);
  PromptCache cache(pools, {kBlockBytes}, 1'000'000);
  EXPECT_TRUE(cache.entries().empty());
  const std::vector<Tokens> texts = {{1, 2, 3}, {1, 2, 4, 5}, {6}};
  for (const Tokens& text : texts) cache.insert(text, computed(pools, static_cast<int>(text.size())));
  EXPECT_THAT(cache.entries(), testing::ElementsAre(texts[2], texts[1], texts[0]));
  EXPECT_EQ(cache.find(texts[1], 4), 4);
  EXPECT_THAT(cache.entries(), testing::ElementsAre(texts[1], texts[2], texts[0]));
}

// Elsewhere there may be no going back from the end of the second to that of the first.
TEST(PromptCacheLookTest, EntriesNameWhatTheyHaveMadeNeedlessUnlessAllCanGoBack) {
  const Tokens first = {1, 2, 3};
  const Tokens second = {1, 2, 3, 4, 5};
  const Tokens third = {1, 2, 3, 4, 5, 6};
  using Texts = std::vector<Tokens>;
  for (const auto& [groups, named] :
       {std::pair(kWindowed, Texts{third, second, first}), std::pair(kFull, Texts{third})}) {
    CachePools pools(kBlockTokens, groups);
    PromptCache cache(pools, std::vector<std::size_t>(groups.size(), kBlockBytes), 1'000'000);
    for (const Tokens& text : {first, second, third})
      cache.insert(text, computed(pools, static_cast<int>(text.size())));
    EXPECT_EQ(cache.stats().entries, 1);
    EXPECT_EQ(cache.entries(), named);
  }
}

TEST(PromptCacheLookTest, RemembersWhatWasEvicted) {
  CachePools pools(kBlockTokens, kFull);
  PromptCache cache(pools, {kBlockBytes}, 1'000'000);
  Tokens tokens(100);
  for (int i = 0; i < 100; ++i) tokens[static_cast<std::size_t>(i)] = i * i % 61;
  cache.insert(tokens, computed(pools, 100));
  EXPECT_EQ(cache.look_at(tokens, 99).num_evicted, 0);
  EXPECT_TRUE(cache.evict());
  EXPECT_EQ(cache.look_at(tokens, 99).num_evicted, 96);
  tokens[70] += 1;
  EXPECT_EQ(cache.look_at(tokens, 99).num_evicted, 64);
  tokens[0] += 1;
  EXPECT_EQ(cache.look_at(tokens, 99).num_evicted, 0);
}

}  // namespace
}  // namespace redpoll::cache
