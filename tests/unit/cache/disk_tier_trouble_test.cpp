// What may happen to the disk tier from inside: no memory, and a disk that does not answer.
#include <gmock/gmock.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/mount.h>
#endif

#include <atomic>
#include <cstdlib>

#include "cache/disk_directory.h"
#include "unit/cache/blocked_disk.h"
#include "unit/cache/disk_tier_fixture.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::cache {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

constexpr int kMayNotMount = 77;
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

#if defined(__linux__)
// A disk of its own, in a child: without room for even a folder, as with one that somebody else has filled.
TEST_F(DiskTierTroubleTest, AFullDiskStopsNobodyAndIsWrittenToOnceItHasRoom) {
  const auto body = [&] {
    std::filesystem::create_directory(options_.directory);
    const char* place = options_.directory.c_str();
    const auto mount_with = [&](unsigned long flags, const char* size) {
      return ::mount("tmpfs", place, "tmpfs", flags, size) == 0;
    };
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        !mount_with(0, "mode=700,nr_inodes=1")) {
      return kMayNotMount;
    }
    const auto check = check_directory(options_.directory);
    if (!check || !check->warning.ends_with("No space left on device")) return 2;
    const auto tier = DiskTier::open(options_, [] {});
    if (!tier) return 3;
    write(**tier, kText);
    if ((*tier)->stats().failed != 3 || (*tier)->stats().entries != 0) return 4;
    if (!mount_with(MS_REMOUNT, "mode=700,nr_inodes=100")) return 5;
    write(**tier, kText);
    expect_restored(**tier, kText);
    return HasFailure() || (*tier)->stats().entries != 3 ? 6 : 0;
  };
  const auto is_fine = [](int status) {
    return testing::ExitedWithCode(0)(status) || testing::ExitedWithCode(kMayNotMount)(status);
  };
  EXPECT_EXIT(std::_Exit(body()), is_fine, "");
}
#endif

}  // namespace
}  // namespace redpoll::cache
