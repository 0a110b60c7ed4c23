// What --kv-quant makes of layers, with our own codes and with MLX's, and what it refuses of each.
#include "nn/kv_packing.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace redpoll::nn {
namespace {

using kernels::KvCodes;
using kernels::KvPacking;
using kernels::KvQuantization;
using Packings = std::vector<KvPacking>;
using Layers = std::vector<cache::LayerCache>;

class KvPackingTest : public testing::Test {
 protected:
  [[nodiscard]] Result<Packings> packings(const kernels::KernelOptions& options, const Layers& layers) const {
    checkpoint::Checkpoint checkpoint;
    checkpoint.path = folder_.path();
    return kv_packings(options, layers, checkpoint);
  }

  /// "none" if there is none.
  [[nodiscard]] std::string refusal(const kernels::KernelOptions& options, const Layers& layers) const {
    const auto made = packings(options, layers);
    if (made) return "none";
    EXPECT_EQ(made.error().param, "kv-quant");
    return made.error().message;
  }

  test::TemporaryFolder folder_;
};

kernels::KernelOptions fast(KvQuantization kv) { return {.kv_quantization = kv}; }
kernels::KernelOptions exact(KvQuantization kv) { return {.exact = true, .kv_quantization = kv}; }

TEST_F(KvPackingTest, CodesAreMlxsInTheExactTierOnly) {
  const Layers layers{{.head_dim = 128}, {.kind = cache::CacheKind::kRecurrent}, {.head_dim = 96}};
  for (const int bits : {8, 4}) {
    const KvQuantization kv = bits == 8 ? KvQuantization::k8 : KvQuantization::k4;
    EXPECT_EQ(packings(fast(kv), layers).value(),
              (Packings{{.bits = bits, .group_size = 64}, {}, {.bits = bits, .group_size = 32}}));
    EXPECT_EQ(packings(exact(kv), layers).value(),
              (Packings{{.bits = bits, .group_size = 64, .codes = KvCodes::kMlx},
                        {},
                        {.bits = bits, .group_size = 32, .codes = KvCodes::kMlx}}));
  }
  EXPECT_EQ(packings(exact(KvQuantization::kOff), layers).value(), Packings(3));
  folder_.write("kv_config.json", R"([{"layer_idx": 2, "bits": 4, "group_size": 32}])");
  EXPECT_EQ(packings(exact(KvQuantization::kConfig), layers).value(),
            (Packings{{}, {}, {.bits = 4, .group_size = 32, .codes = KvCodes::kMlx}}));
}

TEST_F(KvPackingTest, TheExactTierRefusesGroupsThatMlxLacks) {
  const Layers layers{{.head_dim = 64}, {.head_dim = 24}};
  EXPECT_EQ(refusal(fast(KvQuantization::k8), layers), "none");
  const std::string why = "expected a group_size of 32, 64 or 128 that divides the heads, which MLX can pack (--exact ";
  EXPECT_EQ(refusal(exact(KvQuantization::k8), layers),
            "--kv-quant 8: layer 1: " + why + "wants to), got 24; the layer's heads are of 24");
  folder_.write("kv_config.json", R"([{"layer_idx": 1, "bits": 8, "group_size": 24}])");
  EXPECT_EQ(refusal(fast(KvQuantization::kConfig), layers), "none");
  EXPECT_EQ(refusal(exact(KvQuantization::kConfig), layers),
            "--kv-quant config: " + (folder_.path() / "kv_config.json").string() + ": '[0].group_size': " + why +
                "wants to), got 24; the layer's heads are of 24");
}

TEST_F(KvPackingTest, TheExactTierRefusesCapsOverPackedKeysAsMlxLmDoes) {
  const Layers layers{{.head_dim = 64}, {.head_dim = 64, .softcap = 50}};
  EXPECT_EQ(refusal(fast(KvQuantization::k8), layers), "none");
  const std::string why =
      "expected scores over keys that are not capped: mlx-lm, whose bits --exact gives, caps none over packed keys";
  EXPECT_EQ(refusal(exact(KvQuantization::k8), layers), "--kv-quant 8: layer 1: " + why);
  folder_.write("kv_config.json", R"([{"layer_idx": 1, "bits": 8, "group_size": 64}])");
  EXPECT_EQ(refusal(exact(KvQuantization::kConfig), layers),
            "--kv-quant config: " + (folder_.path() / "kv_config.json").string() + ": '[0].layer_idx': " + why);
  folder_.write("kv_config.json", R"([{"layer_idx": 0, "bits": 8, "group_size": 64}])");
  EXPECT_EQ(refusal(exact(KvQuantization::kConfig), layers), "none");
}

}  // namespace
}  // namespace redpoll::nn
