// What is done to single files: how they appear, how damage shows, and what is never touched.
#include "cache/disk_folder.h"
#include "cache/disk_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/cache/disk_fixture.h"

namespace redpoll::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPayloadBytes = 300;

class DiskFolderTest : public testing::Test {
 protected:
  DiskFolderTest() : folder_(*DiskFolder::open_or_make(directory_, folder_name(kFingerprint))) {}

  [[nodiscard]] Result<DiskFolder::Written> write() const {
    return folder_.write({.head = head_, .fingerprint = kFingerprint}, payload_);
  }
  [[nodiscard]] fs::path path_of(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] ErrorCode reading_says(PayloadCheck check = PayloadCheck::kNone) const {
    const auto read = folder_.read(name_, check, payloads_);
    return read ? ErrorCode{-1} : read.error().code;
  }

  TemporaryFolder temporary_;
  fs::path directory_ = temporary_.path() / "some" / "cache";
  DiskFolder folder_;
  StoredHead head_ = heads_of({1, 2, 3}).back();
  std::string name_ = file_name(head_.kind, head_.key);
  mutable PayloadPool payloads_;
  Payload payload_ = payload_of(head_, kPayloadBytes);
};

TEST_F(DiskFolderTest, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(write(), DiskFolder::Written::kNew);
  const auto content = folder_.read(name_, PayloadCheck::kChecksum, payloads_);
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_EQ(content->header.head, head_);
  EXPECT_EQ(content->header.fingerprint, kFingerprint);
  EXPECT_NEAR(static_cast<double>(content->header.created_at), static_cast<double>(file_time_now()) / 1e9, 60);
  EXPECT_EQ(content->payload, payload_);
  const auto listing = folder_.list();
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->files.size(), 1U);
  EXPECT_EQ(listing->files[0].name, name_);
  EXPECT_EQ(listing->files[0].bytes, 4096 + kPayloadBytes);
  EXPECT_TRUE(listing->unfinished.empty());
}

TEST_F(DiskFolderTest, AnEmptyPayloadIsFine) {
  payload_.clear();
  EXPECT_EQ(write(), DiskFolder::Written::kNew);
  EXPECT_TRUE(folder_.read(name_, PayloadCheck::kChecksum, payloads_));
}

TEST_F(DiskFolderTest, NobodyElseMayLookAtWhatWasAsked) {
  ASSERT_TRUE(write());
  EXPECT_EQ(fs::status(path_of(name_)).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(folder_.path()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(directory_).permissions(), fs::perms::owner_all);
}

TEST_F(DiskFolderTest, WhatIsThereInOrderIsNotWrittenAgain) {
  ASSERT_TRUE(write());
  const auto inode_of = [&] {
    struct stat info{};
    EXPECT_EQ(::stat(path_of(name_).c_str(), &info), 0);
    return info.st_ino;
  };
  const auto before = inode_of();
  EXPECT_EQ(write(), DiskFolder::Written::kWasThere);
  EXPECT_EQ(inode_of(), before);
  std::string content = content_of(path_of(name_));
  content[130] ^= 1;
  set_content(path_of(name_), content);
  EXPECT_EQ(write(), DiskFolder::Written::kNew);
  EXPECT_TRUE(folder_.read(name_, PayloadCheck::kChecksum, payloads_));
}

TEST_F(DiskFolderTest, EveryLengthButTheRightOneIsCaught) {
  ASSERT_TRUE(write());
  const auto right_size = static_cast<off_t>(4096 + kPayloadBytes);
  for (off_t size = right_size + 3; size >= 0; --size) {
    ASSERT_EQ(::truncate(path_of(name_).c_str(), size), 0);
    if (size == right_size) {
      ASSERT_EQ(reading_says(PayloadCheck::kChecksum), ErrorCode{-1});
    } else {
      ASSERT_EQ(reading_says(), ErrorCode::kCorruptFile) << size;
    }
  }
}

TEST_F(DiskFolderTest, FlippedBitsOfThePayloadAreCaughtIfAskedFor) {
  ASSERT_TRUE(write());
  const std::string content = content_of(path_of(name_));
  for (std::size_t bit = 8 * (content.size() - kPayloadBytes); bit < 8 * content.size(); bit += 29) {
    std::string damaged = content;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    set_content(path_of(name_), damaged);
    ASSERT_EQ(reading_says(PayloadCheck::kChecksum), ErrorCode::kCorruptFile) << bit;
    ASSERT_EQ(reading_says(PayloadCheck::kNone), ErrorCode{-1}) << bit;
  }
}

TEST_F(DiskFolderTest, AFileInTheWrongPlaceIsRefused) {
  ASSERT_TRUE(write());
  const std::string other = file_name(StoredKind::kSnapshot, heads_of({4}).back().key);
  fs::copy_file(path_of(name_), path_of(other));
  auto read = folder_.read_header(other);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorruptFile);
  EXPECT_EQ(read.error().message, path_of(other).string() + ": its name is not that of its key");
  const DiskFolder others = *DiskFolder::open_or_make(directory_, folder_name(kOtherFingerprint));
  fs::copy_file(path_of(name_), others.path() / name_);
  read = others.read_header(name_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorruptFile);
  EXPECT_THAT(read.error().message, testing::HasSubstr("it is of another model: aaaa"));
}

TEST_F(DiskFolderTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(reading_says(), ErrorCode::kNotFound);
  EXPECT_TRUE(folder_.remove(name_));
  EXPECT_EQ(folder_.set_used_at(name_, 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(DiskFolder::open(directory_, folder_name(kOtherFingerprint)).error().code, ErrorCode::kNotFound);
  fs::remove_all(directory_);
  EXPECT_EQ(reading_says(), ErrorCode::kNotFound);
  EXPECT_EQ(write().error().code, ErrorCode::kNotFound);
}

TEST_F(DiskFolderTest, TimesOfUseAreKeptToTheNanosecond) {
  ASSERT_TRUE(write());
  ASSERT_TRUE(folder_.set_used_at(name_, 1'700'000'000'123'456'789));
  EXPECT_EQ(folder_.list()->files.at(0).used_at, 1'700'000'000'123'456'789);
}

TEST_F(DiskFolderTest, WhatAnotherIsWritingIsLeftToIt) {
  const std::string temporary = name_ + ".tmp";
  {
    const Descriptor writer(::open(path_of(temporary).c_str(), O_WRONLY | O_CREAT, 0600));
    ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
    EXPECT_EQ(write(), DiskFolder::Written::kByAnother);
    EXPECT_FALSE(folder_.remove_unfinished(temporary));
    EXPECT_EQ(folder_.list()->unfinished.size(), 1U);
  }
  set_content(path_of(temporary), std::string(10'000, 'x'));  // longer than what comes
  EXPECT_EQ(write(), DiskFolder::Written::kNew);
  EXPECT_TRUE(folder_.read(name_, PayloadCheck::kChecksum, payloads_));
  set_content(path_of(temporary), "half");
  EXPECT_TRUE(folder_.remove_unfinished(temporary));
  EXPECT_FALSE(fs::exists(path_of(temporary)));
  EXPECT_FALSE(folder_.remove_unfinished(temporary));
}

TEST_F(DiskFolderTest, OnlyFilesOfOursAreListed) {
  ASSERT_TRUE(write());
  const std::string other = file_name(StoredKind::kRun, heads_of({5, 5, 5, 5}).front().key);
  set_content(path_of("notes.txt"), "mine");
  set_content(path_of("notes.txt.tmp"), "mine");
  fs::create_symlink(path_of("notes.txt"), path_of(other));
  fs::create_directory(path_of(file_name(StoredKind::kRun, {})));
  EXPECT_EQ(folder_.list()->files.size(), 1U);
  EXPECT_TRUE(folder_.list()->unfinished.empty());
  EXPECT_FALSE(folder_.read_header(other));
}

TEST_F(DiskFolderTest, SymbolicLinksAreNotFollowed) {
  const fs::path elsewhere = temporary_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  set_content(elsewhere / name_, "precious");
  fs::create_directory_symlink(elsewhere, directory_ / folder_name(kOtherFingerprint));
  EXPECT_FALSE(DiskFolder::open(directory_, folder_name(kOtherFingerprint)));
  EXPECT_FALSE(DiskFolder::open_or_make(directory_, folder_name(kOtherFingerprint)));
  EXPECT_THAT(*list_folders(directory_), testing::ElementsAre(folder_name(kFingerprint)));
  // A link in place of the temporary file would be written through.
  fs::create_symlink(elsewhere / name_, path_of(name_ + ".tmp"));
  EXPECT_FALSE(write());
  EXPECT_FALSE(folder_.remove_unfinished(name_ + ".tmp"));
  EXPECT_EQ(content_of(elsewhere / name_), "precious");
}

TEST(DiskDirectoryTest, ADirectoryThatCannotBeIsAnError) {
  const TemporaryFolder temporary;
  const fs::path file = temporary.write("file", "");
  const auto in_file = DiskFolder::open_or_make(file, folder_name(kFingerprint));
  ASSERT_FALSE(in_file);
  EXPECT_THAT(in_file.error().message, testing::HasSubstr(file.string() + ": Not a directory"));
  EXPECT_FALSE(DiskFolder::open_or_make(file / "below", folder_name(kFingerprint)));
  EXPECT_FALSE(list_folders(temporary.path() / "missing"));
}

}  // namespace
}  // namespace redpoll::cache
