#include "bench/roofline.h"

#include <gtest/gtest.h>

namespace redpoll::bench {
namespace {

using kernels::cpu::Variant;

TEST(RooflineTest, EveryVariantHasLimitsOfItsOwn) {
  const Roofline portable = measure_roofline(Variant::kPortable, 1);
  EXPECT_GT(portable.read_gb_per_s, 0);
  EXPECT_GT(portable.float_gop_per_s, 0);
  EXPECT_GT(portable.int16_gop_per_s, 0);
  EXPECT_GT(portable.int8_gop_per_s, 0);
  for (const Variant variant : kernels::cpu::available_variants()) {
    if (variant == Variant::kPortable) continue;
    const Roofline roofline = measure_roofline(variant, 1);
    EXPECT_GT(roofline.read_gb_per_s, 0) << kernels::cpu::variant_name(variant);
    // Twice the lanes at least, and one instruction where portable code needs two.
    EXPECT_GT(roofline.float_gop_per_s, portable.float_gop_per_s) << kernels::cpu::variant_name(variant);
    EXPECT_GT(roofline.int16_gop_per_s, portable.int16_gop_per_s) << kernels::cpu::variant_name(variant);
    EXPECT_GT(roofline.int8_gop_per_s, portable.int8_gop_per_s) << kernels::cpu::variant_name(variant);
  }
}

}  // namespace
}  // namespace redpoll::bench
