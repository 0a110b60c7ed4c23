// What the prompt cache says it would keep, and what it keeps.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "cache/prompt_cache.h"

namespace redpoll::cache {
namespace {

constexpr int kBlockTokens = 4;

class MostKeptTest : public testing::TestWithParam<std::vector<GroupPool>> {
 protected:
  [[nodiscard]] static bool is_kept(int num_tokens, std::size_t max_bytes) {
    CachePools pools(kBlockTokens, GetParam());
    PromptCache cache(pools, std::vector<std::size_t>(GetParam().size(), 100), max_bytes);
    std::vector<TokenId> tokens(static_cast<std::size_t>(num_tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    cache.insert(tokens, *SequenceCache::to_be_filled(pools, num_tokens, nullptr, 0));
    return !cache.empty();
  }
  [[nodiscard]] static int most_kept(int num_tokens, std::size_t max_bytes) {
    CachePools pools(kBlockTokens, GetParam());
    return PromptCache(pools, std::vector<std::size_t>(GetParam().size(), 100), max_bytes).most_kept(num_tokens);
  }
};

TEST_P(MostKeptTest, IsKept) {
  for (std::size_t max_bytes = 0; max_bytes <= 2'000; max_bytes += 50) {
    const int most = most_kept(60, max_bytes);
    for (int num_tokens = 1; num_tokens <= most; ++num_tokens) {
      EXPECT_TRUE(is_kept(num_tokens, max_bytes)) << num_tokens << " tokens of " << most << " in " << max_bytes;
    }
    // Windows may hold a block less than they ever do.
    EXPECT_TRUE(most == 60 || !is_kept(most + 1 + kBlockTokens, max_bytes)) << most << " in " << max_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, MostKeptTest,
                         testing::Values(std::vector<GroupPool>{{.num_blocks = 50}},
                                         std::vector<GroupPool>{{.num_blocks = 50}, {.window = 10, .num_blocks = 50}},
                                         std::vector<GroupPool>{{.num_blocks = 50},
                                                                {.kind = CacheKind::kRecurrent, .num_blocks = 50}}));

TEST(PromptCacheLimitTest, TokensOfWholeBlocksAreKept) {
  CachePools pools(kBlockTokens, std::vector<GroupPool>{{.num_blocks = 50}});
  const PromptCache cache(pools, {100}, 399);
  EXPECT_EQ(cache.most_kept(100), 3 * kBlockTokens);
  EXPECT_EQ(cache.most_kept(11), 11);
  EXPECT_EQ(cache.most_kept(0), 0);
}

}  // namespace
}  // namespace redpoll::cache
