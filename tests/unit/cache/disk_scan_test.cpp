// What others do to the directory while a disk tier uses it: other servers, and whoever deletes files there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/descriptor.h"
#include "cache/disk_scan.h"
#include "unit/cache/blocked_disk.h"
#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class DiskScanTest : public DiskTierFixture {
 protected:
  DiskScanTest() { options_.look_interval = milliseconds(1); }

  [[nodiscard]] std::unique_ptr<DiskTier> open_as(const std::string& fingerprint) {
    options_.fingerprint = fingerprint;
    return open();
  }
  [[nodiscard]] fs::path path_of(const StoredHead& head) const { return folder() / name_of(head); }
  /// Of the tiers that use the directory, this one knows what is there.
  [[nodiscard]] bool knows_what_is_there(const DiskTier& tier) const {
    return wait_until([&] { return tier.stats().bytes == static_cast<std::uint64_t>(num_files()) * kFileBytes; });
  }
  static void look(DiskTier& tier) {
    ASSERT_TRUE(tier.look_again(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  }

  const std::vector<StoredHead> heads_ = heads_of(kText);
};

TEST_F(DiskScanTest, TheLimitHoldsForAllServersTogether) {
  options_.max_bytes = 6 * kFileBytes;
  for (const std::string& fingerprint : {kFingerprint, kOtherFingerprint}) {
    const auto first = open_as(kFingerprint);
    const auto second = open_as(fingerprint);
    for (TokenId token = 0; token < 20; ++token) {
      look(*first);
      write(*first, {token});
      EXPECT_LE(num_files(), 6);
      look(*second);
      write(*second, {token + 100}, fingerprint);
      EXPECT_LE(num_files(), 6);
    }
    EXPECT_TRUE(knows_what_is_there(*first));
    EXPECT_TRUE(knows_what_is_there(*second));
    EXPECT_GE(num_files(), 4) << "a list that is made while another evicts and writes can have a file too many";
    EXPECT_EQ(first->stats().failed + second->stats().failed, 0U);
  }
}

TEST_F(DiskScanTest, BeforeAWriteItIsKnownWhatOthersHaveWritten) {
  options_.look_interval = std::chrono::hours(1);
  options_.max_bytes = 4 * kFileBytes;
  const auto tier = open();
  {
    const auto other = open();
    for (const TokenId token : {1, 2, 3, 4}) write(*other, {token});
  }
  EXPECT_EQ(tier->stats().entries, 0);
  write(*tier, {5});
  EXPECT_EQ(num_files(), 4);
  EXPECT_EQ(tier->stats().evictions, 1U);
  EXPECT_FALSE(fs::exists(path_of(heads_of({1})[0]))) << "the oldest";
}

TEST_F(DiskScanTest, WhatSomebodyDeletesIsNotInTheBooksAnyMore) {
  std::atomic<int> num_changes = 0;
  auto opened = DiskTier::open(options_, [&] { ++num_changes; });
  ASSERT_TRUE(opened);
  DiskTier& tier = **opened;
  write(tier, kText);
  EXPECT_TRUE(wait_until([&] { return num_changes == 3; }));
  fs::remove(path_of(heads_[2]));
  EXPECT_TRUE(wait_until([&] { return num_changes == 4; })) << "which is said";
  EXPECT_EQ(tier.stats().entries, 2);
  EXPECT_EQ(tier.find(kText, 11).num_tokens, 8);
  for (const fs::path& what : {folder(), options_.directory}) {
    fs::remove_all(what);
    EXPECT_TRUE(wait_until([&] { return tier.stats().entries == 0; }));
    EXPECT_EQ(tier.stats().bytes, 0U);
    EXPECT_EQ(tier.find(kText, 11).num_tokens, 0);
    for (const StoredHead& head : heads_) EXPECT_FALSE(tier.holds(head.kind, head.key));
    write(tier, kText);
    expect_restored(tier, kText);
    EXPECT_EQ(num_files(), 3);
  }
  EXPECT_EQ(tier.stats().failed + tier.stats().dropped + tier.stats().evictions, 0U);
}

TEST_F(DiskScanTest, WhatOthersWriteIsFound) {
  const auto tier = open();
  write(*open(), kText);
  EXPECT_TRUE(wait_until([&] { return tier->find(kText, 11).num_tokens == 11; }));
  expect_restored(*tier, kText);
  EXPECT_EQ(tier->stats().spills, 0U);
  const auto foreign = open_as(kOtherFingerprint);
  write(*foreign, {1}, kOtherFingerprint);
  EXPECT_TRUE(wait_until([&] { return tier->stats().bytes == 4 * kFileBytes; }));
  EXPECT_EQ(tier->stats().entries, 3);
}

TEST_F(DiskScanTest, WhatHasLostItsBeginningCountsAndIsFoundWhenThatIsBack) {
  const auto tier = open();
  write(*tier, kText);
  fs::remove(path_of(heads_[0]));
  EXPECT_TRUE(wait_until([&] { return tier->stats().entries == 2; }));
  EXPECT_EQ(tier->stats().bytes, 2 * kFileBytes);
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 0);
  EXPECT_TRUE(tier->write(heads_[0], payload_of(heads_[0], kPayloadBytes)));
  EXPECT_TRUE(flush(*tier));
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 11);
  expect_restored(*tier, kText);
  EXPECT_EQ(tier->stats().spills, 4U);
}

TEST_F(DiskScanTest, WhatAnotherServerUsesIsNotGivenUpFirst) {
  options_.max_bytes = 3 * kFileBytes;
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  for (const TokenId token : {1, 2, 3}) write(*tier, {token});
  {
    const auto other = open();
    other->touch(other->find(Tokens{1}, 1));
  }
  look(*tier);
  write(*tier, {4});
  EXPECT_EQ(tier->find(Tokens{1}, 1).num_tokens, 1);
  EXPECT_EQ(tier->find(Tokens{2}, 1).num_tokens, 0);
}

TEST_F(DiskScanTest, OnlyFilesThatAreNewAreReadAndDamagedOnesRemoved) {
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  write(*tier, kText);
  std::string content = content_of(path_of(heads_[1]));
  content.at(200) ^= 4;  // in the header
  set_content(path_of(heads_[1]), content);
  look(*tier);
  EXPECT_TRUE(tier->holds(heads_[1].kind, heads_[1].key)) << "of the same size, so nobody has looked into it";
  ASSERT_EQ(::truncate(path_of(heads_[2]).c_str(), 4'096), 0);
  const StoredHead lonely = heads_of({9})[0];
  set_content(path_of(lonely), content);
  CaptureStderr();
  look(*tier);
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(count_of(said, "removed a file of the disk cache"), 2) << said;
  EXPECT_FALSE(fs::exists(path_of(heads_[2])));
  EXPECT_FALSE(fs::exists(path_of(lonely)));
  EXPECT_FALSE(tier->holds(heads_[2].kind, heads_[2].key));
  EXPECT_EQ(tier->stats().entries, 2);
  EXPECT_EQ(tier->stats().bytes, 2 * kFileBytes);
}

TEST_F(DiskScanTest, WhatIsBeingWrittenIsLeftAlone) {
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  const fs::path temporary = folder() / (name_of(heads_[0]) + ".tmp");
  set_content(temporary, "made, and to be locked in a moment");
  look(*tier);
  EXPECT_TRUE(fs::exists(temporary));
}

TEST_F(DiskScanTest, WhereNobodyCanLookWhatWasKnownStays) {
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  write(*tier, kText);
  const std::uint64_t bytes = tier->stats().bytes;
  fs::permissions(folder(), fs::perms::all);  // which is not trusted
  CaptureStderr();
  for (int i = 0; i < 3; ++i) look(*tier);
  fs::permissions(folder(), fs::perms::owner_all);
  for (int i = 0; i < 3; ++i) look(*tier);
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(count_of(said, "cannot look at the disk cache"), 1) << said;
  EXPECT_EQ(count_of(said, "expected a folder that only its owner can write into"), 1) << said;
  EXPECT_EQ(count_of(said, "the disk cache can be looked at again"), 1) << said;
  EXPECT_EQ(tier->stats().bytes, bytes);
  expect_restored(*tier, kText);
}

TEST_F(DiskScanTest, WhatIsWrongWithAFileIsSaidOnceForAsLongAsItIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  write(*tier, kText);
  const auto give_to = [&](uid_t user) { ASSERT_EQ(::chown(path_of(heads_[2]).c_str(), user, user), 0); };
  CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    give_to(kNobody);
    for (int j = 0; j < 3; ++j) look(*tier);
    EXPECT_EQ(tier->stats().entries, 2);
    give_to(0);
    look(*tier);
    EXPECT_EQ(tier->stats().entries, 3);
  }
  EXPECT_EQ(count_of(GetCapturedStderr(), "a file of the disk cache is ignored: it belongs to another user"), 2);
}

TEST_F(DiskScanTest, ThatWritingWorksAgainIsSaidToo) {
  const auto tier = open();
  write(*tier, {1});
  CaptureStderr();
  fs::permissions(options_.directory, fs::perms::all);
  for (const TokenId token : {2, 3}) write(*tier, {token});
  fs::permissions(options_.directory, fs::perms::owner_all);
  for (const TokenId token : {4, 5}) write(*tier, {token});
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(count_of(said, "cannot write to the disk cache"), 1) << said;
  EXPECT_EQ(count_of(said, "the disk cache can be written to again"), 1) << said;
}

TEST_F(DiskScanTest, WhoWantsItLookedAtAtOnceWaitsNoLongerThanToTheDeadline) {
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  write(*open(), kText);
  EXPECT_EQ(tier->stats().entries, 0);
  {
    test::BlockedDisk disk;
    ASSERT_TRUE(tier->write(heads_of({9})[0], payload_of(heads_of({9})[0], kPayloadBytes)));
    EXPECT_TRUE(wait_until([&] { return disk.has_waiters(); }));
    EXPECT_FALSE(tier->look_again(std::chrono::steady_clock::now() + milliseconds(10)));
  }
  look(*tier);
  EXPECT_EQ(tier->stats().entries, 4);
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 11);
}

TEST_F(DiskScanTest, AFolderThatIsOutOfReachForAWhileIsFoundAgain) {
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  write(*tier, kText);
  fs::permissions(folder(), fs::perms::all);  // which nobody reads from
  EXPECT_EQ(read(*tier, heads_[0].kind, heads_[0].key).error().code, ErrorCode::kIo);
  fs::permissions(folder(), fs::perms::owner_all);
  look(*tier);
  ASSERT_NO_FATAL_FAILURE(expect_restored(*tier, kText));
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 11);
}

TEST_F(DiskScanTest, WhatIsLeftOutIsNotFoundAgain) {
  write(*open(), kText);
  DiskScan scan(options_);
  const auto all = scan.look({});
  ASSERT_TRUE(all);
  scan.leave_out(name_of(heads_[0]));
  const auto rest = scan.look({});
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->added.size() + 1, all->added.size());
  for (const DiskChanges::Added& file : rest->added) EXPECT_NE(file.head.key, heads_[0].key);
}

}  // namespace
}  // namespace redpoll::cache
