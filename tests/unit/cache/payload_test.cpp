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
    taken[i] = pool.take(5U << 20U);
    if (taken[i].capacity() >= 8U << 20U) ++num_kept;
  }
  EXPECT_EQ(num_kept, 2) << "16 MiB";
}

TEST(PayloadPoolTest, TheSmallestThatIsLargeEnoughIsTakenAndNoneMoreThanTwiceAsLarge) {
  PayloadPool pool;
  Payload large = pool.take(6U << 20U);
  Payload fitting = pool.take(4U << 20U);
  const std::byte* of_fitting = fitting.data();
  pool.give_back(std::move(large));
  pool.give_back(std::move(fitting));
  EXPECT_EQ(pool.take(10'000).capacity(), 10'000U) << "a snapshot, in the memory of a run";
  EXPECT_EQ(pool.take((2U << 20U) - 1).capacity(), (2U << 20U) - 1);
  EXPECT_EQ(pool.take(3U << 20U).data(), of_fitting);
}

TEST(PayloadPoolTest, SmallOnesGiveWayToLargeOnes) {
  PayloadPool pool;
  std::vector<Payload> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(pool.take(10'000));
  Payload large = pool.take(6U << 20U);
  const std::byte* of_large = large.data();
  for (Payload& payload : taken) pool.give_back(std::move(payload));
  pool.give_back(std::move(large));
  EXPECT_EQ(pool.take(6U << 20U).data(), of_large);
}

// A page of 2 MiB is taken as a whole.
TEST(PayloadPoolTest, CountsWhatIsTakenFromTheSystem) {
  PayloadPool pool;
  EXPECT_EQ(memory_of(pool.take(65)), 128U);
  EXPECT_EQ(memory_of(pool.take((2U << 20U) + 1)), 4U << 20U);
  for (int i = 0; i < 5; ++i) pool.give_back(Payload((2U << 20U) + 1));
  EXPECT_EQ(pool.spare_bytes(), 16U << 20U) << "four, of which each takes 4 MiB";
  pool.keep_at_most(9U << 20U);
  EXPECT_EQ(pool.spare_bytes(), 8U << 20U);
  pool.keep_at_most(0);
  EXPECT_EQ(pool.spare_bytes(), 0U);
}

TEST(PayloadTest, BeginsWithAHugePageWhereItIsAsLargeAsOne) {
  const Payload payload(5U << 20U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % kHugePage, 0U);
}

}  // namespace
}  // namespace redpoll::cache
