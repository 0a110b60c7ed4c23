// The types of keys and values that the graph of a step tells are those that steps then write.
#include "engine/kv_floats.h"

#include <gtest/gtest.h>
#include <mlx/transforms.h>

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "models/registry.h"
#include "unit/models/batches.h"

namespace redpoll::engine {
namespace {

namespace fs = std::filesystem;

class KvFloatsTest : public testing::TestWithParam<std::string> {};

TEST_P(KvFloatsTest, AreThoseOfTheFirstKeysAndValues) {
  const auto checkpoint = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / GetParam());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto kernels = kernels::make_kernels({.exact = true});
  ASSERT_TRUE(kernels->keeps_types());
  const auto model = models::make_model(*checkpoint, *kernels);
  ASSERT_TRUE(model) << model.error().message;
  const auto floats = kv_floats(**model, *kernels);

  const std::vector<cache::LayerCache>& layers = (*model)->info().layers;
  cache::KvCache cache = test::make_cache(*kernels, layers, 2);  // takes what comes
  kernels::RaggedBatch batch;
  test::FedSequence sequence{.tokens = {1, 2, 3, 4, 5}, .blocks = {0}};
  test::feed(batch, sequence, 5);
  nn::ForwardContext context{.kernels = *kernels, .batch = batch, .kv = cache.layers(), .states = cache.states()};
  models::mx::eval((*model)->forward(context));
  ASSERT_EQ(floats.size(), layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != cache::CacheKind::kAttention) continue;
    ASSERT_TRUE(floats[i]);
    EXPECT_EQ(floats[i], cache.layers()[i].floats()) << "layer " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KvFloatsTest,
                         testing::Values("mistral_f32", "phi3_f16", "olmo2_bf16", "qwen3_untied_6bit",
                                         "gemma3_text_windows_4bit", "gemma4_shared_4bit", "qwen3_5_4bit", "lfm2_4bit",
                                         "gpt_oss_mxfp4", "qwen3_mxfp8", "starcoder2_f16"),
                         [](const auto& info) { return info.param; });

TEST(KvFloatsOfACpuTest, AreDecidedByItsKernels) {
  const auto checkpoint = checkpoint::open_checkpoint(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / "phi3_f16");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto kernels = kernels::make_kernels({.num_threads = 1});
  if (kernels->keeps_types()) GTEST_SKIP() << "no CPU computes here";
  const auto model = models::make_model(*checkpoint, *kernels);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(kv_floats(**model, *kernels).empty());
}

}  // namespace
}  // namespace redpoll::engine
