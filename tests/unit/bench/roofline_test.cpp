#include "bench/roofline.h"

#include <gtest/gtest.h>

namespace redpoll::bench {
namespace {

using kernels::cpu::Variant;

TEST(RooflineTest, EveryVariantHasLimits) {
  for (const Variant variant : kernels::cpu::available_variants()) {
    const Roofline roofline = measure_roofline(variant, 1);
    EXPECT_GT(roofline.read_gb_per_s, 0.1) << kernels::cpu::variant_name(variant);
    EXPECT_GT(roofline.float_gop_per_s, 0.1) << kernels::cpu::variant_name(variant);
    EXPECT_GT(roofline.int8_gop_per_s, 0.1) << kernels::cpu::variant_name(variant);
    EXPECT_LT(roofline.read_gb_per_s, 1e4) << "nothing may be optimized away";
    EXPECT_LT(roofline.float_gop_per_s, 1e4);
    EXPECT_LT(roofline.int8_gop_per_s, 1e5);
  }
}

}  // namespace
}  // namespace redpoll::bench
