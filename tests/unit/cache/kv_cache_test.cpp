#include "cache/kv_cache.h"

#include <gmock/gmock.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace redpoll::cache {
namespace {

using testing::ElementsAre;

const LayerCache kWide{.kind = CacheKind::kAttention, .num_kv_heads = 2, .head_dim = 16};
const LayerCache kNarrow{.kind = CacheKind::kAttention, .num_kv_heads = 1, .head_dim = 16};
const LayerCache kSliding{.kind = CacheKind::kAttention, .num_kv_heads = 1, .head_dim = 16, .window = 4};
const LayerCache kNothing{.kind = CacheKind::kNone};

TEST(CacheGroupsTest, PutsLayersTogetherThatSeeAsManyTokens) {
  const auto groups = make_cache_groups({kSliding, kWide, kNothing, kSliding, kNarrow});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].window, 4);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 3));
  EXPECT_EQ(groups[1].window, 0);
  EXPECT_THAT(groups[1].layers, ElementsAre(1, 4));
  EXPECT_TRUE(make_cache_groups({}).empty());
  EXPECT_TRUE(make_cache_groups({kNothing}).empty());
}

TEST(CacheGroupsTest, CountsTheBlocksThatTokensSpan) {
  for (int num_tokens = 0; num_tokens < 20; ++num_tokens) {
    int most = 0;
    for (int first = 0; first < 4; ++first) {
      most = std::max(most, num_tokens == 0 ? 0 : (first + num_tokens - 1) / 4 + 1);
    }
    EXPECT_EQ(blocks_spanned(num_tokens, 4), most) << num_tokens;
  }
}

class KvCacheTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_kernels({.num_threads = 1, .reference = GetParam()});
};

TEST_P(KvCacheTest, HasStorageForEveryLayerInOrder) {
  KvCache cache(*kernels_, {.layers = {kNarrow, kSliding, kNothing, kWide}, .num_blocks = {5, 3}, .block_tokens = 16});
  ASSERT_EQ(cache.layers().size(), 4U);
  EXPECT_EQ(cache.layers()[0].keys.size(), 5U * 16 * 16);
  EXPECT_EQ(cache.layers()[0].group, 0);
  EXPECT_EQ(cache.layers()[1].values.size(), 3U * 16 * 16);
  EXPECT_EQ(cache.layers()[1].group, 1);
  EXPECT_EQ(cache.layers()[2].keys.size(), 1U) << "has nothing of its own";
  EXPECT_EQ(cache.layers()[3].keys.size(), 5U * 16 * 2 * 16);
  EXPECT_EQ(cache.layers()[3].group, 0);
}

TEST_P(KvCacheTest, CountsTheBytesOfABlockInAllLayersOfAGroup) {
  const std::vector<LayerCache> layers{kNarrow, kSliding, kWide, kNarrow};
  const auto groups = make_cache_groups(layers);
  KvCache cache(*kernels_, {.layers = layers, .num_blocks = {6, 2}, .block_tokens = 8});
  std::size_t bytes[2] = {};
  for (const auto& layer : cache.layers()) bytes[layer.group] += layer.keys.nbytes() + layer.values.nbytes();
  EXPECT_EQ(bytes_per_block(*kernels_, layers, groups[0], 8) * 6, bytes[0]);
  EXPECT_EQ(bytes_per_block(*kernels_, layers, groups[1], 8) * 2, bytes[1]);
}

// By hand, a block of 32 tokens of 2 heads of 64: 2 * 2 * 32 * 64 codes, and for each head of keys and of values a
// scale and a bias of 2 bytes for each token.
TEST_P(KvCacheTest, CountsTheBytesOfPackedKeysAndValues) {
  LayerCache layer{.kind = CacheKind::kAttention, .num_kv_heads = 2, .head_dim = 64};
  const auto block_bytes = [&](kernels::KvPacking packing) {
    layer.packing = packing;
    return bytes_per_block(*kernels_, {layer}, make_cache_groups({layer}).front(), 32);
  };
  EXPECT_EQ(block_bytes({.bits = 8, .group_size = 64}), 8192U + 512);
  EXPECT_EQ(block_bytes({.bits = 8, .group_size = 32}), 8192U + 1024);
  EXPECT_EQ(block_bytes({.bits = 4, .group_size = 64}), 4096U + 512);
}

TEST_P(KvCacheTest, LayersOfOneGroupMayBePackedDifferently) {
  LayerCache packed = kWide;
  packed.packing = {.bits = 4, .group_size = 16};
  KvCache cache(*kernels_, {.layers = {kNarrow, packed}, .num_blocks = {3}, .block_tokens = 4});
  EXPECT_EQ(cache.layers()[0].pools().size(), 2U);
  EXPECT_EQ(cache.layers()[1].pools().size(), 4U);
  for (kernels::KvStorage& layer : cache.layers()) {
    for (const mlx::core::array* pool : layer.pools()) EXPECT_EQ(pool->shape(0), 3);
  }
}

TEST_P(KvCacheTest, CopiesABlockInEveryLayerOfItsGroupAndForgetsItAllWhenReset) {
  KvCache cache(*kernels_, {.layers = {kNarrow, kWide, kSliding}, .num_blocks = {3, 3}, .block_tokens = 1});
  kernels::RaggedBatch batch;  // one token, whose K and V go to block 1
  batch.tokens = {7};
  batch.positions = {0};
  batch.rows = {{.first_token = 0, .num_tokens = 1, .num_computed = 0, .first_block = 0, .num_blocks = 1}};
  batch.block_ids = {1, 1};
  batch.logit_rows = {0};
  batch.block_tokens = 1;
  for (auto& layer : cache.layers()) {
    const int num_kv_heads = &layer == &cache.layers()[1] ? 2 : 1;
    const auto ones = mlx::core::ones({1, num_kv_heads, 16}, mlx::core::float32);
    mlx::core::eval(ones);
    kernels_->write_kv(layer, ones, ones, batch);
  }
  const auto sum_of = [](mlx::core::array values) {
    return mlx::core::sum(mlx::core::astype(std::move(values), mlx::core::float32)).item<float>();
  };
  cache.copy_block({.group = 0, .from = 1, .to = 2});
  EXPECT_EQ(sum_of(cache.layers()[0].keys), 2 * 16);
  EXPECT_EQ(sum_of(cache.layers()[1].values), 2 * 32);
  EXPECT_EQ(sum_of(cache.layers()[2].values), 16);
  cache.reset();
  EXPECT_EQ(sum_of(cache.layers()[0].keys), 0);
  EXPECT_EQ(sum_of(cache.layers()[1].values), 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, KvCacheTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "reference" : "fast"; });

}  // namespace
}  // namespace redpoll::cache
