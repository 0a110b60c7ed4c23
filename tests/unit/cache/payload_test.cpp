#include "cache/payload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace redpoll::cache {
namespace {

TEST(PayloadPoolTest, MemoryThatIsLargeEnoughIsUsedAgain) {
  PayloadPool pool;
  Payload large = pool.take(3U << 20U);
  Payload small = pool.take(1U << 20U);
  const std::byte* of_large = large.data();
  const std::byte* of_small = small.data();
  pool.give_back(std::move(small));
  pool.give_back(std::move(large));
  const Payload again = pool.take(2U << 20U);
  EXPECT_EQ(again.data(), of_large);
  EXPECT_EQ(again.size(), 2U << 20U);
  EXPECT_EQ(pool.take(1U << 20U).data(), of_small);
  EXPECT_EQ(pool.take(0).size(), 0U);
}

TEST(PayloadPoolTest, KeepsNoMoreThanALittle) {
  PayloadPool pool;
  std::vector<Payload> taken;
  for (int i = 0; i < 20; ++i) taken.push_back(pool.take(8U << 20U));
  std::vector<const std::byte*> places;
  for (Payload& payload : taken) {
    places.push_back(payload.data());
    pool.give_back(std::move(payload));
  }
  int num_kept = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    taken[i] = pool.take(1);  // of what is kept the smallest is as large as any
    if (taken[i].capacity() >= 8U << 20U) ++num_kept;
  }
  EXPECT_EQ(num_kept, 2) << "16 MiB";
}

TEST(PayloadTest, BeginsWithAHugePageWhereItIsAsLargeAsOne) {
  const Payload payload(5U << 20U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % kHugePage, 0U);
}

}  // namespace
}  // namespace redpoll::cache
