// What may happen to the disk tier from inside: no memory, and a disk that does not answer.
#include <gmock/gmock.h>

#include <atomic>

#include "unit/cache/blocked_disk.h"
#include "unit/cache/disk_tier_fixture.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::cache {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

constexpr int kMostAllocations = 200;  // more than reading or writing a file takes

class DiskTierTroubleTest : public DiskTierFixture {};

// Each allocation of each job fails once: what is asked for is answered, what is to be written is counted, and the
// books are right.
TEST_F(DiskTierTroubleTest, NoMemoryCostsAFileAtMost) {
  CaptureStderr();
  for (int n = 1; n < kMostAllocations; ++n) {
    const TemporaryFolder own;
    options_.directory = own.path() / "cache";
    auto opened = DiskTier::open(options_, [n] { test::allocations().until_failure = n; });
    ASSERT_TRUE(opened);
    DiskTier& tier = **opened;
    write(tier, {9});  // from here on
    write(tier, kText);
    DiskTierStats stats = tier.stats();
    ASSERT_EQ(stats.spills + stats.failed + stats.dropped, 4U) << n;
    EXPECT_EQ(stats.queued_bytes, 0U);
    EXPECT_EQ(stats.bytes, static_cast<std::uint64_t>(stats.entries) * kFileBytes);
    std::uint64_t num_read = 0;
    for (const StoredHead& head : heads_of(kText)) {
      const auto file = read(tier, head.kind, head.key);
      num_read += file ? 1 : 0;
      if (file) {
        EXPECT_EQ(file->payload, payload_of(head, kPayloadBytes));
      }
    }
    stats = tier.stats();
    EXPECT_EQ(stats.restores, num_read);
    EXPECT_EQ(stats.bytes, static_cast<std::uint64_t>(stats.entries) * kFileBytes);
  }
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("no memory"));
}

TEST_F(DiskTierTroubleTest, WhatTheCallbackThrowsEndsWithIt) {
  const auto tier = DiskTier::open(options_, [] { throw std::bad_alloc(); });
  ASSERT_TRUE(tier);
  write(**tier, kText);
  expect_restored(**tier, kText);
}

TEST_F(DiskTierTroubleTest, ADiskThatDoesNotAnswerIsLeftBehind) {
  const auto num_calls = std::make_shared<std::atomic<int>>(0);
  auto tier = DiskTier::open(options_, [num_calls] { ++*num_calls; });
  ASSERT_TRUE(tier);
  const StoredHead head = heads_of({1})[0];
  test::BlockedDisk disk;
  EXPECT_TRUE((*tier)->write(head, payload_of(head, kPayloadBytes)));
  EXPECT_TRUE(wait_until([&] { return disk.has_waiters(); }));
  EXPECT_FALSE((*tier)->flush(std::chrono::steady_clock::now() + std::chrono::milliseconds(10)));
  CaptureStderr();
  tier->reset();
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("the disk of the disk cache does not answer"));
  EXPECT_TRUE(disk.has_waiters());
  disk.release();
  EXPECT_TRUE(wait_until([&] { return num_calls.use_count() == 1; })) << "the thread ends, and all it had is freed";
  EXPECT_EQ(*num_calls, 0);
  EXPECT_TRUE(std::filesystem::exists(folder() / name_of(head)));
}

}  // namespace
}  // namespace redpoll::cache
