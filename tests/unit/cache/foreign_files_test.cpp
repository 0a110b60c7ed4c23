// Files of other fingerprints: in which order they go, and whose begin as a text does.
#include "cache/foreign_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

TEST(ForeignFilesTest, TheLeastRecentlyUsedGoesFirst) {
  ForeignFiles files;
  EXPECT_FALSE(files.oldest_use());
  files.add({.folder = "a", .name = "new", .bytes = 3}, 20);
  files.add({.folder = "b", .name = "old", .bytes = 4}, 10);
  EXPECT_EQ(files.bytes(), 7U);
  EXPECT_EQ(files.oldest_use(), 10);
  EXPECT_EQ(files.take_oldest().name, "old");
  EXPECT_EQ(files.bytes(), 3U);
  EXPECT_EQ(files.take_oldest().folder, "a");
  EXPECT_FALSE(files.oldest_use());
  EXPECT_EQ(files.bytes(), 0U);
}

void add_runs(ForeignFiles& files, const std::string& folder, const std::string& fingerprint, const Tokens& text) {
  std::vector<ContentKey> runs;
  for (const StoredHead& head : heads_of(text, fingerprint)) {
    if (head.kind == StoredKind::kRun) runs.push_back(head.key);
  }
  std::ranges::sort(runs);
  files.add_runs(folder, {.root = root_key(fingerprint), .run_tokens = kRunTokens}, std::move(runs));
}

TEST(ForeignFilesTest, WhoseRunsHoldMostOfATextIsKnown) {
  ForeignFiles files;
  EXPECT_EQ(files.longest_beginning(kText).num_tokens, 0);
  add_runs(files, "a", kFingerprint, {1, 1, 1, 1, 7, 7, 7, 7});
  add_runs(files, "b", kOtherFingerprint, kText);
  const auto expect = [&](const Tokens& text, const std::string& folder, int num_tokens) {
    const ForeignFiles::Beginning found = files.longest_beginning(text);
    EXPECT_EQ(found.folder, folder);
    EXPECT_EQ(found.num_tokens, num_tokens);
  };
  expect(kText, "b", 8);
  expect({1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7, 7}, "a", 8);
  expect({1, 1, 1, 1, 9}, "a", 4);  // both have as much
  expect({1, 1, 1}, "", 0);         // no whole run
  expect({2, 2, 2, 2}, "", 0);      // a run, but none that begins a text
  expect({}, "", 0);
}

class ForeignFolderTest : public DiskTierFixture {};

TEST_F(ForeignFolderTest, WhatAnotherFingerprintHasOfATextIsFoundByItsRuns) {
  const auto other = open();
  write(*other, kText);
  options_.fingerprint = kOtherFingerprint;
  options_.run_tokens = 2 * kRunTokens;  // which is not that of the files
  options_.look_interval = std::chrono::hours(1);
  const auto tier = open();
  const auto look = [&] { ASSERT_TRUE(tier->look_again(std::chrono::steady_clock::now() + std::chrono::seconds(60))); };
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 0);
  EXPECT_EQ(tier->find_elsewhere(kText).folder, folder_name(kFingerprint));
  EXPECT_EQ(tier->find_elsewhere(kText).num_tokens, 8);
  EXPECT_EQ(tier->find_elsewhere(Tokens{2, 2, 2, 2}).num_tokens, 0);
  write(*other, {5, 5, 5, 5, 6});
  look();
  EXPECT_EQ(tier->find_elsewhere(Tokens{5, 5, 5, 5}).num_tokens, 4);
  fs::remove(folder(kFingerprint) / name_of(heads_of(kText)[1]));
  look();
  EXPECT_EQ(tier->find_elsewhere(kText).num_tokens, 4);
  fs::remove_all(folder(kFingerprint));
  look();
  EXPECT_EQ(tier->find_elsewhere(kText).folder, "");
}

TEST_F(ForeignFolderTest, AHeaderThatCannotBeReadSaysNothing) {
  write(*open(), {1, 1, 1, 1});
  set_content(folder(kFingerprint) / name_of(heads_of({1, 1, 1, 1})[0]), "damaged");
  options_.fingerprint = kOtherFingerprint;
  const auto tier = open();
  EXPECT_EQ(tier->find_elsewhere(Tokens{1, 1, 1, 1}).num_tokens, 0);
  EXPECT_EQ(tier->stats().bytes, 7 + kFileBytes) << "a snapshot of no tokens more, and what is damaged, which counts";
}

}  // namespace
}  // namespace redpoll::cache
