// What may happen to the disk tier from outside: damaged files, full disks, lost folders, other servers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "base/descriptor.h"
#include "base/log.h"
#include "cache/disk_folder.h"
#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

void flip_bit(const fs::path& path, std::size_t offset, unsigned bit = 2) {
  std::string content = content_of(path);
  content.at(offset) ^= static_cast<char>(1U << bit);
  set_content(path, content);
}

class DiskTierFailureTest : public DiskTierFixture {
 protected:
  [[nodiscard]] fs::path path_of(const StoredHead& head) const { return folder() / name_of(head); }

  /// Opens a tier and returns what it said.
  std::string open_and_listen() {
    CaptureStderr();
    tier_ = open();
    return GetCapturedStderr();
  }

  std::unique_ptr<DiskTier> tier_;
  const std::vector<StoredHead> heads_ = heads_of(kText);
};

// --- Damage -------------------------------------------------------------------------------------------------------

TEST_F(DiskTierFailureTest, DamagedFilesAreRemovedAtStart) {
  {
    write(*open(), kText);
  }
  const auto lonely = heads_of({9});
  flip_bit(path_of(heads_[0]), 100);
  ASSERT_EQ(::truncate(path_of(heads_[1]).c_str(), 5'000), 0);
  fs::copy_file(path_of(heads_[2]), path_of(lonely[0]));
  flip_bit(path_of(heads_[2]), 8);  // the format's version
  set_content(folder() / (name_of(heads_[0]) + ".tmp"), "half");
  const std::string said = open_and_listen();
  EXPECT_EQ(count_of(said, "removed a file of the disk cache"), 5) << said;
  EXPECT_THAT(said, HasSubstr("the header's checksum is wrong"));
  EXPECT_THAT(said, HasSubstr("payload length: expected 904 as the file has, got 1000"));
  EXPECT_THAT(said, HasSubstr("format version: expected 1, got 5"));
  EXPECT_THAT(said, HasSubstr("its name is not that of its key"));
  EXPECT_THAT(said, HasSubstr("half written, and nobody is writing it"));
  EXPECT_EQ(num_files(), 0);
  EXPECT_EQ(tier_->stats().entries, 0);
  EXPECT_EQ(tier_->stats().bytes, 0U);
}

TEST_F(DiskTierFailureTest, FilesOfAnotherModelAreRemovedFromThisOnesFolder) {
  std::string near = kFingerprint;  // the same folder
  near.back() = 'b';
  options_.fingerprint = near;
  {
    write(*open(), {1}, near);
  }
  options_.fingerprint = kFingerprint;
  EXPECT_THAT(open_and_listen(), HasSubstr("it is of another model: " + near));
  EXPECT_EQ(num_files(), 0);
}

TEST_F(DiskTierFailureTest, RunsOfAnotherLengthAreRemoved) {
  {
    write(*open(), kText);
  }
  options_.run_tokens = 3;
  const std::string said = open_and_listen();
  EXPECT_EQ(count_of(said, "expected runs of 3 tokens, got 4"), 2) << said;
  EXPECT_EQ(count_of(said, "expected a beginning where a run of 3 tokens ends, got 8"), 1) << said;
  EXPECT_EQ(num_files(), 0);
}

TEST_F(DiskTierFailureTest, DamageIsCaughtWhenAFileIsRead) {
  tier_ = open();
  write(*tier_, kText);
  flip_bit(path_of(heads_[1]), 200);                       // the header
  flip_bit(path_of(heads_[2]), 4096 + kPayloadBytes - 1);  // the payload
  CaptureStderr();
  for (const int i : {1, 2}) {
    const auto file = read(*tier_, heads_[static_cast<std::size_t>(i)].kind, heads_[static_cast<std::size_t>(i)].key);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::kCorruptFile);
  }
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the header's checksum is wrong"));
  EXPECT_THAT(said, HasSubstr("the payload's checksum is wrong"));
  EXPECT_EQ(num_files(), 1);
  EXPECT_EQ(tier_->find(kText, 11).num_tokens, 4);
  EXPECT_EQ(tier_->stats().failed, 2U);
  write(*tier_, kText);
  expect_restored(*tier_, kText);
}

TEST_F(DiskTierFailureTest, AnyBitOfAPayloadThatIsFlippedIsCaught) {
  configure_log({.level = LogLevel::kOff});  // hundreds of damaged files
  constexpr std::size_t kPayload = 20'003;
  std::vector<std::pair<std::size_t, unsigned>> flips;
  for (unsigned bit = 0; bit < 8; ++bit) {
    for (const std::size_t at : {std::size_t{0}, kPayload - 1}) flips.emplace_back(at, bit);
  }
  std::mt19937 random(11);
  while (flips.size() < 300) flips.emplace_back(random() % kPayload, random() % 8);
  tier_ = open();
  const StoredHead head = heads_of({1})[0];
  for (const auto& [at, bit] : flips) {
    ASSERT_TRUE(tier_->write(head, payload_of(head, kPayload)) && flush(*tier_));
    flip_bit(path_of(head), 4096 + at, bit);
    const auto file = read(*tier_, head.kind, head.key);
    ASSERT_FALSE(file) << "bit " << bit << " of byte " << at;
    ASSERT_EQ(file.error().code, ErrorCode::kCorruptFile);
    ASSERT_THAT(file.error().message, HasSubstr("the payload's checksum is wrong"));
    ASSERT_FALSE(fs::exists(path_of(head)));
  }
  configure_log({});
}

TEST_F(DiskTierFailureTest, PayloadsAreCheckedOnlyIfAskedFor) {
  options_.verify = false;
  tier_ = open();
  write(*tier_, {1});
  const StoredHead head = heads_of({1})[0];
  flip_bit(path_of(head), 4096);
  EXPECT_TRUE(read(*tier_, head.kind, head.key));
}

TEST_F(DiskTierFailureTest, WhatIsNotOursIsLeftAlone) {
  {
    write(*open(), kText);
  }
  const fs::path elsewhere = temporary_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  const std::string name = name_of(heads_[0]);
  set_content(elsewhere / name, "precious");
  set_content(elsewhere / (name + ".tmp"), "precious");
  set_content(options_.directory / "notes.txt", "mine");
  set_content(options_.directory / name, "mine");  // not in a folder of ours
  set_content(folder() / "notes.tmp", "mine");
  fs::create_directory_symlink(elsewhere, options_.directory / "0123456789abcdef");
  fs::create_symlink(elsewhere / name, folder() / name_of(heads_of({9})[0]));
  fs::create_symlink(elsewhere / name, folder() / (name_of(heads_of({9})[0]) + ".tmp"));
  options_.max_bytes = 1;  // everything that can go must go
  EXPECT_EQ(open_and_listen(), "");
  EXPECT_EQ(tier_->stats().bytes, 0U);
  EXPECT_FALSE(fs::exists(path_of(heads_[0])));
  for (const fs::path& path : {elsewhere / name, elsewhere / (name + ".tmp")}) EXPECT_EQ(content_of(path), "precious");
  for (const fs::path& path : {options_.directory / "notes.txt", options_.directory / name, folder() / "notes.tmp"}) {
    EXPECT_EQ(content_of(path), "mine");
  }
  EXPECT_TRUE(fs::is_symlink(folder() / name_of(heads_of({9})[0])));
  EXPECT_TRUE(fs::is_symlink(options_.directory / "0123456789abcdef"));
}

// --- What the system refuses --------------------------------------------------------------------------------------

/// In a child, whose limits and user are nobody else's business. What it prints is compared by EXPECT_EXIT.
template <typename Body>
[[noreturn]] void run_in_child(const Body& body) {
  const bool is_fine = body();
  std::_Exit(is_fine && !testing::Test::HasFailure() ? 0 : 1);
}

void limit_file_size(rlim_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(DiskTierFailureTest, AFullDiskIsSaidOnceUntilItWorksAgain) {
  const auto body = [&] {
    std::signal(SIGXFSZ, SIG_IGN);  // then writing beyond the limit is an error, as on a full disk
    tier_ = open();
    const auto write_one = [&](TokenId token) {
      const StoredHead head = heads_of({token})[0];
      return tier_->write(head, payload_of(head, 100'000)) && flush(*tier_) && tier_->holds(head.kind, head.key);
    };
    const std::string log = (temporary_.path() / "log").string();
    const Descriptor said(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(said.get(), STDERR_FILENO);
    const auto num_said = [&] { return count_of(content_of(log), "cannot write to the disk cache"); };
    const auto expect = [](bool is_so, int line) {
      if (!is_so) std::_Exit(line);
    };
    expect(write_one(0), 2);
    limit_file_size(50'000);
    for (TokenId token = 1; token < 6; ++token) expect(!write_one(token), 3);
    expect(num_said() == 1, 4);
    expect(content_of(log).find("File too large") != std::string::npos, 5);
    expect(tier_->find(Tokens{0}, 1).num_tokens == 1, 6);
    expect(read(*tier_, StoredKind::kSnapshot, heads_of({0})[0].key).has_value(), 7);
    expect(num_files() == 1, 8);  // nothing half written is left
    limit_file_size(RLIM_INFINITY);
    expect(write_one(1), 9);
    limit_file_size(50'000);
    expect(!write_one(7) && !write_one(8), 10);
    expect(num_said() == 2, 11);
    expect(tier_->stats().failed == 7 && tier_->stats().spills == 2, 12);
    return true;
  };
  EXPECT_EXIT(run_in_child(body), testing::ExitedWithCode(0), "");
}

TEST_F(DiskTierFailureTest, AFolderWithoutPermissionIsAnErrorAtStartAndNoneLater) {
  if (::getuid() == 0) fs::permissions(temporary_.path(), fs::perms::all);
  const auto body = [&] {
    if (::getuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return false;  // root may do anything
    tier_ = open();
    write(*tier_, kText);
    fs::permissions(folder(), fs::perms::none);
    const StoredHead head = heads_of({9})[0];
    if (!tier_->write(head, payload_of(head, 10)) || !flush(*tier_)) return false;
    if (tier_->holds(head.kind, head.key) || tier_->stats().failed != 1) return false;
    const auto unreadable = read(*tier_, heads_[2].kind, heads_[2].key);
    if (unreadable || unreadable.error().code != ErrorCode::kIo) return false;
    fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec);
    const auto second = DiskTier::open(options_, [] {});
    if (second || second.error().message != "cannot write into " + folder().string() + ": Permission denied") {
      return false;
    }
    fs::permissions(folder(), fs::perms::owner_all);
    write(*tier_, {9});
    return tier_->holds(head.kind, head.key);
  };
  EXPECT_EXIT(run_in_child(body), testing::ExitedWithCode(0), "cannot write to the disk cache(.|\n)*cannot read from");
}

TEST_F(DiskTierFailureTest, AFileInPlaceOfTheDirectoryIsAnError) {
  set_content(options_.directory, "");
  const auto tier = DiskTier::open(options_, [] {});
  ASSERT_FALSE(tier);
  EXPECT_THAT(tier.error().message, HasSubstr("Not a directory"));
}

TEST_F(DiskTierFailureTest, AFolderInPlaceOfAFileIsSaidOnceForEachAndLeftThere) {
  tier_ = open();
  const StoredHead temporary = heads_of({9})[0];
  const std::vector<fs::path> folders = {path_of(heads_[1]), folder() / (name_of(temporary) + ".tmp")};
  for (const fs::path& path : folders) fs::create_directory(path);
  CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    write(*tier_, kText);
    write(*tier_, {9});
    write(*tier_, {i + 20});  // which works, in between
  }
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(count_of(said, "a folder is in the place of a file of the disk cache"), 2) << said;
  for (const fs::path& path : folders) EXPECT_EQ(count_of(said, path.string()), 1) << said;
  EXPECT_THAT(said, testing::Not(HasSubstr("cannot write")));
  EXPECT_EQ(tier_->stats().failed, 6U);
  EXPECT_EQ(tier_->stats().entries, 4) << "what comes before it, and what has nothing to do with it";
  EXPECT_EQ(num_files(), 4) << "nothing half written is left";
  for (const fs::path& path : folders) EXPECT_TRUE(fs::is_directory(path));
  EXPECT_TRUE(tier_->is_blocked(heads_[1].key));
  EXPECT_FALSE(tier_->is_blocked(heads_[0].key));
  fs::remove(folders[0]);
  EXPECT_TRUE(wait_until([&] { return !tier_->is_blocked(heads_[1].key); })) << "who asks makes somebody look";
  EXPECT_TRUE(tier_->is_blocked(temporary.key));
  write(*tier_, kText);
  expect_restored(*tier_, kText);
}

TEST_F(DiskTierFailureTest, ADeletedDirectoryIsMadeAgain) {
  tier_ = open();
  write(*tier_, kText);
  fs::remove_all(options_.directory);
  EXPECT_EQ(read(*tier_, heads_[2].kind, heads_[2].key).error().code, ErrorCode::kNotFound);
  write(*tier_, {9});  // and now it is known that nothing is left
  EXPECT_EQ(tier_->stats().entries, 1);
  EXPECT_EQ(tier_->stats().bytes, kFileBytes);
  EXPECT_EQ(num_files(), 1);
  write(*tier_, kText);
  expect_restored(*tier_, kText);
  EXPECT_EQ(tier_->stats().failed, 0U);
}

// --- Other servers ------------------------------------------------------------------------------------------------

TEST_F(DiskTierFailureTest, WhatAnotherServerWroteIsAdopted) {
  tier_ = open();
  {
    write(*open(), kText);
  }
  EXPECT_EQ(tier_->find(kText, 11).num_tokens, 0);
  write(*tier_, kText);
  EXPECT_EQ(tier_->find(kText, 11).num_tokens, 11);
  EXPECT_EQ(tier_->stats().bytes, 3 * kFileBytes);
  expect_restored(*tier_, kText);
}

TEST_F(DiskTierFailureTest, WhatAnotherServerIsWritingIsLeftToIt) {
  tier_ = open();
  const StoredHead head = heads_of({1})[0];
  const fs::path temporary = folder() / (name_of(head) + ".tmp");
  {
    const Descriptor writer(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
    write(*tier_, {1});
    EXPECT_FALSE(tier_->holds(head.kind, head.key));
    EXPECT_EQ(tier_->stats().dropped, 1U);
    EXPECT_EQ(tier_->stats().failed, 0U);
    EXPECT_EQ(open_and_listen(), "");  // a third one does not clean it away
    EXPECT_TRUE(fs::exists(temporary));
  }
  write(*tier_, {1});
  EXPECT_TRUE(tier_->holds(head.kind, head.key));
  EXPECT_FALSE(fs::exists(temporary));
}

/// What it has is what was written, or has been evicted by the other.
void expect_right_or_gone(const Result<StoredFile>& file, const ContentKey& key) {
  if (!file) {
    EXPECT_EQ(file.error().code, ErrorCode::kNotFound) << file.error().message;
    return;
  }
  EXPECT_EQ(file->head.key, key);
  EXPECT_EQ(file->payload, payload_of(file->head, kPayloadBytes));
}

TEST_F(DiskTierFailureTest, TwoServersAtOnceDoNotHurtEachOther) {
  options_.max_bytes = 12 * kFileBytes;  // evicting all the time
  const auto serve = [&](unsigned seed) {
    const auto tier = open();
    std::mt19937 random(seed);
    for (int i = 0; i < 150; ++i) {
      Tokens text(1 + random() % 10);
      for (TokenId& token : text) token = static_cast<TokenId>(random() % 2);
      write(*tier, text);
      const auto match = tier->find(text, static_cast<int>(text.size()));
      tier->touch(match);
      for (const ContentKey& run : match.runs) expect_right_or_gone(read(*tier, StoredKind::kRun, run), run);
      if (match.snapshot) {
        expect_right_or_gone(read(*tier, StoredKind::kSnapshot, *match.snapshot), *match.snapshot);
      }
    }
    EXPECT_EQ(tier->stats().failed, 0U);
    EXPECT_GT(tier->stats().restores, 100U);
  };
  {
    const std::jthread first(serve, 1);
    const std::jthread second(serve, 2);
  }
  EXPECT_EQ(open_and_listen(), "");  // nothing damaged or half written is left
  EXPECT_LE(num_files(), 12);
}

}  // namespace
}  // namespace redpoll::cache
