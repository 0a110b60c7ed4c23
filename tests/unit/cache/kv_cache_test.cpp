#include "cache/kv_cache.h"

#include <gmock/gmock.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <memory>
#include <vector>

namespace redpoll::cache {
namespace {

using testing::ElementsAre;

const LayerCache kWide{.kind = CacheKind::kFullAttention, .num_kv_heads = 2, .head_dim = 16};
const LayerCache kNarrow{.kind = CacheKind::kFullAttention, .num_kv_heads = 1, .head_dim = 16};

TEST(CacheGroupsTest, PutsLayersOfOneShapeTogether) {
  const auto groups = make_cache_groups({kWide, kNarrow, kWide, kWide, kNarrow});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].shape, kWide);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 2, 3));
  EXPECT_EQ(groups[1].shape, kNarrow);
  EXPECT_THAT(groups[1].layers, ElementsAre(1, 4));
  EXPECT_TRUE(make_cache_groups({}).empty());
}

class KvCacheTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<kernels::Kernels> kernels_ = kernels::make_kernels({.num_threads = 1, .reference = GetParam()});
};

TEST_P(KvCacheTest, HasStorageForEveryLayerInOrder) {
  KvCache cache(*kernels_,
                {.groups = make_cache_groups({kNarrow, kWide, kNarrow}), .num_blocks = 5, .block_tokens = 16});
  ASSERT_EQ(cache.layers().size(), 3U);
  EXPECT_EQ(cache.layers()[0].keys.size(), 5U * 16 * 16);
  EXPECT_EQ(cache.layers()[1].keys.size(), 5U * 16 * 2 * 16);
  EXPECT_EQ(cache.layers()[2].values.size(), 5U * 16 * 16);
}

TEST_P(KvCacheTest, CountsTheBytesOfABlockInAllLayers) {
  const auto groups = make_cache_groups({kNarrow, kWide, kNarrow});
  KvCache cache(*kernels_, {.groups = groups, .num_blocks = 6, .block_tokens = 8});
  std::size_t total = 0;
  for (const auto& layer : cache.layers()) total += layer.keys.nbytes() + layer.values.nbytes();
  EXPECT_EQ(bytes_per_block(*kernels_, groups, 8) * 6, total);
}

TEST_P(KvCacheTest, CopiesABlockInEveryLayerAndForgetsItAllWhenReset) {
  KvCache cache(*kernels_, {.groups = make_cache_groups({kNarrow, kWide}), .num_blocks = 3, .block_tokens = 1});
  kernels::RaggedBatch batch;  // one token, whose K and V go to block 1
  batch.tokens = {7};
  batch.positions = {0};
  batch.rows = {{.first_token = 0, .num_tokens = 1, .num_computed = 0, .first_block = 0, .num_blocks = 1}};
  batch.block_ids = {1};
  batch.logit_rows = {0};
  batch.block_tokens = 1;
  for (auto& layer : cache.layers()) {
    const int num_kv_heads = &layer == &cache.layers().front() ? 1 : 2;
    const auto ones = mlx::core::ones({1, num_kv_heads, 16}, mlx::core::float32);
    mlx::core::eval(ones);
    kernels_->write_kv(layer, ones, ones, batch);
  }
  const auto sum_of = [](mlx::core::array values) {
    return mlx::core::sum(mlx::core::astype(std::move(values), mlx::core::float32)).item<float>();
  };
  cache.copy_block({.from = 1, .to = 2});
  EXPECT_EQ(sum_of(cache.layers()[0].keys), 2 * 16);
  EXPECT_EQ(sum_of(cache.layers()[1].values), 2 * 32);
  cache.reset();
  EXPECT_EQ(sum_of(cache.layers()[0].keys), 0);
  EXPECT_EQ(sum_of(cache.layers()[1].values), 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, KvCacheTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "reference" : "fast"; });

}  // namespace
}  // namespace redpoll::cache
