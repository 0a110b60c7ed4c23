// Whose files are read, and how much memory a file may ask for.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class DiskTrustTest : public DiskTierFixture {
 protected:
  [[nodiscard]] fs::path path_of(const StoredHead& head) const { return folder() / name_of(head); }
  [[nodiscard]] std::string opening_says() const {
    const auto tier = DiskTier::open(options_, [] {});
    return tier ? "" : tier.error().message;
  }
  static void give_to_nobody(const fs::path& path) { ASSERT_EQ(::lchown(path.c_str(), kNobody, kNobody), 0) << path; }

  const std::vector<StoredHead> heads_ = heads_of(kText);
};

TEST_F(DiskTrustTest, FoldersThatOthersCanWriteIntoAreRefused) {
  {
    write(*open(), kText);
  }
  for (const fs::path& path : {options_.directory, folder()}) {
    for (const fs::perms more :
         {fs::perms::group_write, fs::perms::others_write, fs::perms::others_all | fs::perms::sticky_bit}) {
      fs::permissions(path, fs::perms::owner_all | more);
      EXPECT_EQ(opening_says(), path.string() +
                                    ": expected a folder that only its owner can write into, got one that others can; "
                                    "use another folder, or, if you trust what is in it: chmod go-w '" +
                                    path.string() + "'");
    }
    fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
    EXPECT_EQ(opening_says(), "");
  }
  EXPECT_EQ(num_files(), 3);
}

TEST_F(DiskTrustTest, WhereTheDirectoryLiesDoesNotMatter) {
  fs::permissions(temporary_.path(), fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(opening_says(), "");
}

TEST_F(DiskTrustTest, AFolderThatIsOpenedToOthersLaterIsNotUsedAnyMore) {
  const auto tier = open();
  write(*tier, kText);
  fs::permissions(folder(), fs::perms::all);
  CaptureStderr();
  const auto file = read(*tier, heads_[0].kind, heads_[0].key);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  write(*tier, {9});
  EXPECT_EQ(tier->stats().failed, 2U);
  EXPECT_EQ(num_files(), 3);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("cannot write to the disk cache"));
}

TEST_F(DiskTrustTest, FoldersOfOtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  {
    write(*open(), kText);
  }
  for (const fs::path& path : {folder(), options_.directory}) {
    give_to_nobody(path);
    EXPECT_EQ(opening_says(), path.string() +
                                  ": expected a folder of user 0, who runs this, got one of user 65534, who could "
                                  "change what is in it; use another folder");
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(opening_says(), "");
}

TEST_F(DiskTrustTest, FilesOfOtherUsersAreLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string planted = content_of([&] {
    write(*open(), kText);
    return path_of(heads_[2]);
  }());
  give_to_nobody(path_of(heads_[2]));
  set_content(folder() / (name_of(heads_[1]) + ".tmp"), "half");
  give_to_nobody(folder() / (name_of(heads_[1]) + ".tmp"));
  CaptureStderr();
  const auto tier = open();
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("a file of the disk cache is ignored: it belongs to another user"));
  EXPECT_THAT(said, HasSubstr(path_of(heads_[2]).string()));
  EXPECT_EQ(tier->stats().entries, 2);
  EXPECT_EQ(tier->find(kText, 11).num_tokens, 8);
  EXPECT_EQ(num_files(), 4);
  give_to_nobody(path_of(heads_[0]));  // behind its back
  const auto file = read(*tier, heads_[0].kind, heads_[0].key);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_EQ(file.error().message,
            path_of(heads_[0]).string() + ": expected a file of user 0, who runs this, got one of user 65534");
  EXPECT_EQ(num_files(), 4);
}

/// A file in order whose payload is a hole.
void plant(const fs::path& path, const StoredHead& head, std::uint64_t payload_bytes) {
  const auto header = encode_header({.head = head, .fingerprint = kFingerprint, .payload_bytes = payload_bytes});
  set_content(path, std::string_view(reinterpret_cast<const char*>(header.data()), header.size()));
  fs::resize_file(path, header.size() + payload_bytes);
}

TEST_F(DiskTrustTest, FilesLargerThanAnyCanBeTakeNoMemory) {
  constexpr std::uint64_t kHuge = 1ULL << 40U;
  options_.max_bytes = 2 * kHuge;
  options_.max_file_bytes = kFileBytes;
  options_.verify = false;
  auto tier = open();
  write(*tier, kText);
  expect_restored(*tier, kText);
  plant(path_of(heads_[2]), heads_[2], kHuge);
  const auto file = read(*tier, heads_[2].kind, heads_[2].key);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kCorruptFile);
  EXPECT_THAT(file.error().message, HasSubstr("expected at most 5096 bytes, got 1099511631872"));
  EXPECT_FALSE(fs::exists(path_of(heads_[2])));
  plant(path_of(heads_[1]), heads_[1], kHuge);
  tier.reset();
  tier = open();
  EXPECT_EQ(tier->stats().entries, 1);
  EXPECT_FALSE(fs::exists(path_of(heads_[1])));
}

TEST_F(DiskTrustTest, NoFileIsWrittenThatWouldNotBeRead) {
  options_.max_file_bytes = kFileBytes - 1;
  const auto tier = open();
  EXPECT_FALSE(tier->write(heads_[0], payload_of(heads_[0], kPayloadBytes)));
  EXPECT_TRUE(tier->write(heads_[0], payload_of(heads_[0], kPayloadBytes - 1)));
  EXPECT_TRUE(flush(*tier));
  EXPECT_EQ(tier->stats().dropped, 1U);
  EXPECT_EQ(tier->stats().entries, 1);
}

}  // namespace
}  // namespace redpoll::cache
