#include "server/fit/memory_speed.h"

#include <gtest/gtest.h>

#include "kernels/cpu/rates.h"
#include "kernels/device_info.h"

namespace redpoll::server {
namespace {

TEST(MemorySpeedTest, IsMeasuredOnceThereIsRoomToMeasureItIn) {
  const std::size_t least = kernels::cpu::least_bytes_to_read();
  if (!kernels::computes_on_cpu()) {
    EXPECT_FALSE(MemorySpeed::measure(2 * least));
    return;
  }
  EXPECT_FALSE(MemorySpeed::measure(least - 1));
  EXPECT_GT(MemorySpeed::measure(least).value_or(0), 0);
  MemorySpeed speed;
  EXPECT_FALSE(speed.read_gb_per_s([] { return 0; }));
  EXPECT_FALSE(speed.read_gb_per_s([&] { return 2 * least - 2; })) << "half is left to others";
  const std::optional<double> measured = speed.read_gb_per_s([&] { return 2 * least; });
  ASSERT_TRUE(measured);
  EXPECT_GT(*measured, 0);
  EXPECT_EQ(speed.read_gb_per_s([] { return 0; }), measured) << "which takes no memory";
}

}  // namespace
}  // namespace redpoll::server
