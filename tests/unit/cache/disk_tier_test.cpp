// The disk tier as the engine uses it: what comes back, after a restart too, and in which order things go.
#include "cache/disk_tier.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>

#include "cache/disk_folder.h"
#include "unit/cache/blocked_disk.h"
#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

namespace fs = std::filesystem;

class DiskTierTest : public DiskTierFixture {};

TEST_F(DiskTierTest, ReadsThatAreCancelledBeforeTheirTurnAreNotDone) {
  auto tier = open();
  write(*tier, kText);
  const std::vector<StoredHead> heads = heads_of(kText);
  ASSERT_TRUE(wait_until([&] { return tier->job() == 0; }));
  test::BlockedReads disk;
  for (std::size_t i = 0; i < heads.size(); ++i) tier->read(i, heads[i].kind, heads[i].key);
  ASSERT_TRUE(wait_until([&] { return disk.has_waiters(); }));
  const std::uint64_t job = tier->job();
  EXPECT_NE(job, 0U);
  tier->cancel_reads();
  tier->read(9, heads[1].kind, heads[1].key);
  EXPECT_EQ(tier->job(), job) << "it is still at the first one";
  disk.release();
  std::vector<std::uint64_t> ids;
  ASSERT_TRUE(wait_until([&] {
    for (const DiskTier::Restored& restored : tier->take_restored()) ids.push_back(restored.id);
    return ids.size() == 2;
  }));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{0, 9}));
  EXPECT_TRUE(wait_until([&] { return tier->job() == 0; }));
  EXPECT_EQ(tier->stats().restores, 2U);
}

TEST_F(DiskTierTest, WhatIsWrittenIsFoundAndReadBack) {
  auto tier = open();
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 0);
  write(*tier, kText);
  const auto match = tier->find(kText, 11);
  EXPECT_EQ(match.num_tokens, 11);
  EXPECT_EQ(match.tokens, kText);
  ASSERT_EQ(match.runs.size(), 2U);
  ASSERT_TRUE(match.snapshot);
  expect_restored(*tier, kText);
  const DiskTierStats stats = tier->stats();
  EXPECT_EQ(stats.entries, 3);
  EXPECT_EQ(stats.bytes, 3 * kFileBytes);
  EXPECT_EQ(stats.spills, 3U);
  EXPECT_EQ(stats.restores, 3U);
  EXPECT_EQ(stats.dropped + stats.failed + stats.evictions, 0U);
  EXPECT_EQ(tier->queued_bytes(), 0U);
}

TEST_F(DiskTierTest, ARestartForgetsNothing) {
  {
    write(*open(), kText);
  }
  const auto tier = open();
  EXPECT_EQ(tier->stats().entries, 3);
  EXPECT_EQ(tier->stats().bytes, 3 * kFileBytes);
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 11);
  expect_restored(*tier, kText);
}

TEST_F(DiskTierTest, AnotherFingerprintFindsNothing) {
  {
    write(*open(), kText);
  }
  options_.fingerprint = kOtherFingerprint;
  const auto tier = open();
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 0);
  EXPECT_EQ(tier->stats().entries, 0);
  EXPECT_EQ(tier->stats().bytes, 3 * kFileBytes);  // they count all the same
}

TEST_F(DiskTierTest, SnapshotsAloneServeWhereRunsHaveNoData) {
  options_.runs_have_data = false;
  options_.can_resume_anywhere = false;
  const StoredHead snapshot = heads_of(kText).back();
  const auto tier = open();
  ASSERT_TRUE(tier->write(snapshot, payload_of(snapshot, kPayloadBytes)));
  ASSERT_TRUE(flush(*tier));
  const auto match = tier->find(kText, 11);
  EXPECT_EQ(match.num_tokens, 11);
  EXPECT_TRUE(match.runs.empty());
  EXPECT_EQ(match.snapshot, snapshot.key);
  EXPECT_EQ(match.tokens, kText);
  EXPECT_EQ(tier->find(kText, 10).num_tokens, 0);
}

TEST_F(DiskTierTest, WhatIsHeldIsNotWrittenAgain) {
  const auto tier = open();
  write(*tier, kText);
  write(*tier, kText);
  EXPECT_EQ(tier->stats().spills, 3U);
  for (const StoredHead& head : heads_of(kText)) EXPECT_TRUE(tier->holds(head.kind, head.key));
  EXPECT_FALSE(tier->holds(StoredKind::kRun, heads_of(kText).back().key));
}

TEST_F(DiskTierTest, AFileWithoutItsParentIsDropped) {
  const auto tier = open();
  const StoredHead snapshot = heads_of(kText).back();
  EXPECT_TRUE(tier->write(snapshot, payload_of(snapshot, kPayloadBytes)));
  ASSERT_TRUE(flush(*tier));
  EXPECT_FALSE(tier->holds(snapshot.kind, snapshot.key));
  EXPECT_EQ(tier->stats().dropped, 1U);
  EXPECT_EQ(num_files(), 0);
}

TEST_F(DiskTierTest, TheQueueHasItsLimit) {
  options_.max_queued_bytes = 128;
  const auto tier = open();
  const StoredHead head = heads_of({1}).back();
  EXPECT_FALSE(tier->write(head, payload_of(head, 129)));
  EXPECT_FALSE(tier->holds(head.kind, head.key));
  EXPECT_TRUE(tier->write(head, payload_of(head, 128)));
  EXPECT_TRUE(tier->holds(head.kind, head.key));
  EXPECT_LE(tier->queued_bytes(), 128U);
  ASSERT_TRUE(flush(*tier));
  EXPECT_EQ(tier->stats().dropped, 1U);
  EXPECT_EQ(tier->stats().spills, 1U);
}

TEST_F(DiskTierTest, TheQueueCountsTheMemoryOfPayloads) {
  constexpr std::size_t kPage = std::size_t{2} << 20U;
  options_.max_queued_bytes = 3 * kPage;
  const auto tier = open();
  tier->give_back(Payload(kPage));
  tier->give_back(Payload(kPage));
  test::BlockedDisk disk;
  EXPECT_FALSE(tier->room_for(3 * kPage + 1));
  std::optional<Payload> payload = tier->room_for(kPage + 1);  // which takes two, so one spare has to go
  ASSERT_TRUE(payload);
  const StoredHead head = heads_of({1}).back();
  EXPECT_TRUE(tier->write(head, *std::move(payload)));
  EXPECT_EQ(tier->queued_bytes(), 2 * kPage);
  EXPECT_FALSE(tier->room_for(kPage + 1));
  payload = tier->room_for(kPage);
  ASSERT_TRUE(payload);
  EXPECT_EQ(memory_of(*payload), kPage);
  disk.release();
  ASSERT_TRUE(flush(*tier));
  EXPECT_EQ(tier->queued_bytes(), 0U);
  EXPECT_TRUE(tier->room_for(3 * kPage));
}

TEST_F(DiskTierTest, WhatIsLargerThanEverythingIsRefused) {
  options_.max_bytes = 3 * kFileBytes - 1;
  const auto tier = open();
  const StoredHead head = heads_of({1}).back();
  EXPECT_FALSE(tier->write(head, payload_of(head, 3 * kFileBytes - 4096)));
  EXPECT_TRUE(tier->write(head, payload_of(head, 3 * kFileBytes - 4097)));
  ASSERT_TRUE(flush(*tier));
  EXPECT_EQ(tier->stats().entries, 1);
  EXPECT_EQ(tier->stats().dropped, 1U);
}

TEST_F(DiskTierTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  options_.max_bytes = 3 * kFileBytes;
  const auto tier = open();
  for (const Tokens& text : {Tokens{1}, Tokens{2}, Tokens{3}}) write(*tier, text);
  tier->touch(tier->find(Tokens{1}, 1));
  write(*tier, {4});
  EXPECT_EQ(tier->find(Tokens{2}, 1).num_tokens, 0);
  EXPECT_EQ(tier->find(Tokens{1}, 1).num_tokens, 1);
  EXPECT_EQ(tier->stats().evictions, 1U);
  EXPECT_EQ(tier->stats().bytes, 3 * kFileBytes);
  EXPECT_EQ(num_files(), 3);
}

TEST_F(DiskTierTest, UsesSurviveARestart) {
  {
    const auto tier = open();
    for (const Tokens& text : {Tokens{1}, Tokens{2}, Tokens{3}}) write(*tier, text);
    tier->touch(tier->find(Tokens{1}, 1));
  }
  options_.max_bytes = kFileBytes;  // less than is there
  const auto tier = open();
  EXPECT_EQ(tier->find(Tokens{1}, 1).num_tokens, 1);
  EXPECT_EQ(tier->stats().entries, 1);
  EXPECT_EQ(num_files(), 1);
}

TEST_F(DiskTierTest, AChainIsGivenUpFromItsEnd) {
  options_.max_bytes = 4 * kFileBytes;
  const auto tier = open();
  write(*tier, kText);
  tier->touch(tier->find(kText, 11));
  write(*tier, {7});
  write(*tier, {8});  // evicts the snapshot of kText: the oldest that nothing builds on
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 8);
  write(*tier, {9});
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 4);
}

TEST_F(DiskTierTest, AChainThatIsTooLongKeepsItsBeginning) {
  options_.max_bytes = 2 * kFileBytes;
  const auto tier = open();
  Tokens text;
  for (int i = 0; i < 20; ++i) text.push_back(i);
  write(*tier, text);
  EXPECT_EQ(tier->find(text, 20).num_tokens, 8);
  EXPECT_EQ(tier->stats().entries, 2);
  EXPECT_EQ(tier->stats().dropped, 4U);
}

TEST_F(DiskTierTest, FilesOfOtherModelsAreEvictedByAge) {
  {
    write(*open(), kText);
  }
  options_.fingerprint = kOtherFingerprint;
  options_.max_bytes = 3 * kFileBytes;
  const auto tier = open();
  write(*tier, {1, 1, 1, 1, 2}, kOtherFingerprint);
  EXPECT_EQ(tier->stats().entries, 2);
  EXPECT_EQ(tier->stats().evictions, 2U);
  EXPECT_EQ(num_files(), 3);
  EXPECT_TRUE(fs::exists(folder(kFingerprint) / name_of(heads_of(kText)[0])));  // the last to go
  write(*tier, {1, 1, 1, 1, 2, 2, 2, 2}, kOtherFingerprint);
  EXPECT_FALSE(fs::exists(folder(kFingerprint)));
}

TEST_F(DiskTierTest, AFileThatVanishedIsAMiss) {
  const auto tier = open();
  write(*tier, kText);
  const auto match = tier->find(kText, 11);
  ASSERT_TRUE(match.snapshot);
  fs::remove(folder() / file_name(StoredKind::kSnapshot, *match.snapshot));
  EXPECT_EQ(read(*tier, StoredKind::kSnapshot, *match.snapshot).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 8);
  EXPECT_FALSE(tier->holds(StoredKind::kSnapshot, *match.snapshot));
  EXPECT_EQ(tier->stats().failed, 0U);
  write(*tier, kText);
  expect_restored(*tier, kText);
}

TEST_F(DiskTierTest, AnswersComeInTheOrderOfTheQuestions) {
  const auto tier = open();
  write(*tier, kText);
  const auto heads = heads_of(kText);
  std::vector<ContentKey> asked;
  for (std::uint64_t id = 0; id < 30; ++id) {
    asked.push_back(heads[id % heads.size()].key);
    tier->read(id, heads[id % heads.size()].kind, asked.back());
  }
  std::vector<DiskTier::Restored> restored;
  ASSERT_TRUE(wait_until([&] {
    for (auto& one : tier->take_restored()) restored.push_back(std::move(one));
    return restored.size() == 30;
  }));
  for (std::uint64_t id = 0; id < 30; ++id) {
    EXPECT_EQ(restored[id].id, id);
    ASSERT_TRUE(restored[id].file);
    EXPECT_EQ(restored[id].file->head.key, asked[id]);
  }
}

TEST_F(DiskTierTest, EveryChangeIsSaid) {
  std::atomic<int> num_changes = 0;
  auto tier = DiskTier::open(options_, [&] { ++num_changes; });
  ASSERT_TRUE(tier);
  write(**tier, kText);
  EXPECT_TRUE(wait_until([&] { return num_changes == 3; }));
  ASSERT_TRUE(read(**tier, StoredKind::kRun, heads_of(kText)[0].key));
  EXPECT_TRUE(wait_until([&] { return num_changes == 4; }));
}

TEST_F(DiskTierTest, FlushingEndsAtTheDeadline) {
  options_.max_queued_bytes = 64U << 20U;
  const auto tier = open();
  EXPECT_TRUE(tier->flush(Clock::TimePoint{}));  // there is nothing to do
  for (int i = 0; i < 8; ++i) {
    const StoredHead head = heads_of({i}).back();
    ASSERT_TRUE(tier->write(head, payload_of(head, 4U << 20U)));
  }
  EXPECT_FALSE(tier->flush(Clock::TimePoint{}));
  EXPECT_TRUE(flush(*tier));
  EXPECT_EQ(tier->queued_bytes(), 0U);
  EXPECT_EQ(tier->stats().spills, 8U);
}

TEST_F(DiskTierTest, TheEndDoesNotWaitForTheQueue) {
  {
    const auto tier = open();
    test::BlockedDisk disk;  // until all are in the queue
    for (int i = 0; i < 50; ++i) {
      const StoredHead head = heads_of({i}).back();
      ASSERT_TRUE(tier->write(head, payload_of(head, 1U << 20U)));
    }
  }
  const auto tier = open();
  EXPECT_LT(tier->stats().entries, 50);
  EXPECT_EQ(tier->stats().entries, num_files());
}

}  // namespace
}  // namespace redpoll::cache
