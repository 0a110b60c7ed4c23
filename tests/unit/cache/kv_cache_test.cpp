#include "cache/kv_cache.h"

#include <gmock/gmock.h>
#include <mlx/memory.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
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

/// Block b of the pool filled with bytes of value b + first; floats of such bytes are numbers.
void fill_blocks(mlx::core::array& pool, int first) {
  const auto num_blocks = static_cast<std::size_t>(pool.shape(0));
  std::vector<std::uint8_t> bytes;
  for (std::size_t b = 0; b < num_blocks; ++b) {
    bytes.insert(bytes.end(), pool.nbytes() / num_blocks,
                 static_cast<std::uint8_t>(b + static_cast<std::size_t>(first)));
  }
  const mlx::core::array flat(bytes.data(), {static_cast<int>(bytes.size())}, mlx::core::uint8);
  pool = mlx::core::reshape(mlx::core::view(flat, pool.dtype()), pool.shape());
  pool.eval();
}

struct BytesCase {
  const char* name;
  bool reference;
  LayerCache layer;
};

void PrintTo(const BytesCase& bytes_case, std::ostream* out) { *out << bytes_case.name; }

class KvBytesTest : public testing::TestWithParam<BytesCase> {};

TEST_P(KvBytesTest, BlocksGoOutAndComeBackAsTheyStand) {
  if (!GetParam().reference && mlx::core::default_device() != mlx::core::Device::cpu) GTEST_SKIP();
  const auto kernels = kernels::make_kernels({.num_threads = 1, .reference = GetParam().reference});
  KvCache cache(*kernels,
                {.layers = {GetParam().layer, kNothing, GetParam().layer}, .num_blocks = {6}, .block_tokens = 4});
  std::vector<mlx::core::array*> pools;
  for (const std::size_t layer : {0, 2}) {
    const auto own =
        GetParam().layer.kind == CacheKind::kRecurrent ? cache.states()[layer].pools() : cache.layers()[layer].pools();
    pools.insert(pools.end(), own.begin(), own.end());
  }
  std::size_t block_bytes = 0;
  std::vector<std::size_t> bytes_of_pool;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    fill_blocks(*pools[i], 10 * static_cast<int>(i + 1));
    bytes_of_pool.push_back(pools[i]->nbytes() / 6);
    block_bytes += bytes_of_pool.back();
  }
  ASSERT_EQ(cache.block_bytes(0), block_bytes);

  const auto expected = [&](const std::vector<int>& blocks) {  // by hand: block after block, a pool after the other
    std::vector<std::byte> bytes;
    for (const int block : blocks) {
      for (std::size_t i = 0; i < pools.size(); ++i) {
        bytes.insert(bytes.end(), bytes_of_pool[i], static_cast<std::byte>(10 * static_cast<int>(i + 1) + block));
      }
    }
    return bytes;
  };
  const auto read = [&](const std::vector<int>& blocks) {
    std::vector<std::byte> bytes(blocks.size() * block_bytes);
    cache.read_blocks(0, blocks, bytes);
    return bytes;
  };
  EXPECT_EQ(read({4, 1, 3}), expected({4, 1, 3}));
  cache.write_blocks(0, std::vector{0, 5}, expected({3, 1}));
  EXPECT_EQ(read({0, 1, 2, 3, 4, 5}), expected({3, 1, 2, 3, 4, 1}));
  cache.copy_block({.group = 0, .from = 2, .to = 1});
  cache.copy_block({.group = 0, .from = 1, .to = 4});
  EXPECT_EQ(read({0, 1, 2, 3, 4, 5}), expected({3, 2, 2, 3, 2, 1}));
}

/// To the first block of each pool.
void write_as_a_step_does(KvCache& cache) {
  std::vector<mlx::core::array> written;
  const auto write = [&](const std::vector<mlx::core::array*>& pools) {
    for (mlx::core::array* pool : pools) {
      mlx::core::Shape end = pool->shape();
      end[0] = 1;
      const mlx::core::Shape begin(end.size(), 0);
      *pool = mlx::core::slice_update(*pool, mlx::core::zeros(end, pool->dtype()), begin, end);
      written.push_back(*pool);
    }
  };
  for (kernels::KvStorage& layer : cache.layers()) {
    if (layer.keys.ndim() > 0) write(layer.pools());
  }
  for (kernels::StateStorage& layer : cache.states()) {
    if (layer.convolution.ndim() > 0) write(layer.pools());
  }
  mlx::core::eval(std::move(written));
}

/// Nor does the step after it.
TEST_P(KvBytesTest, MovingBlocksTakesNoSecondPool) {
  if (!GetParam().reference) GTEST_SKIP() << "memory that MLX does not count";
  const auto kernels = kernels::make_kernels({.reference = true});
  constexpr int kNumBlocks = 4096;
  KvCache cache(*kernels, {.layers = {GetParam().layer}, .num_blocks = {kNumBlocks}, .block_tokens = 64});
  std::vector<std::byte> bytes(4 * cache.block_bytes(0));
  const std::size_t pool_bytes = kNumBlocks * cache.block_bytes(0);
  cache.write_blocks(0, std::vector{0, 1, 2, 3}, bytes);
  cache.read_blocks(0, std::vector{0, 1, 2, 3}, bytes);
  mlx::core::reset_peak_memory();
  const std::size_t before = mlx::core::get_active_memory();
  for (int i = 0; i < 8; ++i) {
    cache.copy_block({.group = 0, .from = i, .to = i + 100});
    cache.write_blocks(0, std::vector{i, i + 10, i + 20, i + 30}, bytes);
    write_as_a_step_does(cache);
    cache.read_blocks(0, std::vector{i, i + 11, i + 21, i + 31}, bytes);
  }
  EXPECT_LT(mlx::core::get_peak_memory() - before, pool_bytes / 8);
}

std::vector<BytesCase> bytes_cases() {
  const auto floats = [](kernels::FloatType type) {
    LayerCache layer = kWide;
    layer.floats = kernels::KvFloats{.keys = type, .values = type};
    return layer;
  };
  LayerCache packed = kWide;
  packed.packing = {.bits = 4, .group_size = 16};
  const LayerCache state{.kind = CacheKind::kRecurrent,
                         .conv_tokens = 3,
                         .conv_channels = 8,
                         .num_heads = 2,
                         .key_dim = 8,
                         .value_dim = 16};
  const LayerCache convolution{.kind = CacheKind::kRecurrent, .conv_tokens = 3, .conv_channels = 8};
  std::vector<BytesCase> cases;
  for (const bool reference : {true, false}) {
    cases.push_back({"f32", reference, floats(kernels::FloatType::kF32)});
    cases.push_back({"f16", reference, floats(kernels::FloatType::kF16)});
    cases.push_back({"bf16", reference, floats(kernels::FloatType::kBF16)});
    cases.push_back({"q4", reference, packed});
    cases.push_back({"state", reference, state});
    cases.push_back({"convolution", reference, convolution});
  }
  return cases;
}

std::string bytes_case_name(const testing::TestParamInfo<BytesCase>& info) {
  return std::string(info.param.name) + (info.param.reference ? "_reference" : "_fast");
}

INSTANTIATE_TEST_SUITE_P(Kernels, KvBytesTest, testing::ValuesIn(bytes_cases()), bytes_case_name);
/// The same, on one.
INSTANTIATE_TEST_SUITE_P(Accelerator, KvBytesTest, testing::ValuesIn(bytes_cases()), bytes_case_name);

INSTANTIATE_TEST_SUITE_P(Kernels, KvCacheTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "reference" : "fast"; });

}  // namespace
}  // namespace redpoll::cache
