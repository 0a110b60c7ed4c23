// Whether a directory can be used at all, which is known before any model is.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "cache/disk_directory.h"
#include "unit/cache/disk_fixture.h"

namespace redpoll::cache {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;
const std::string kAdvice = "; name a folder that this user can make or write into";

std::string complaint(const fs::path& directory) {
  const auto check = check_directory(directory);
  return check ? "" : check.error().message;
}

class CheckDirectoryTest : public testing::Test {
 protected:
  TemporaryFolder temporary_;
  const fs::path directory_ = temporary_.path() / "some" / "cache";
};

TEST_F(CheckDirectoryTest, ItIsMadeAndNothingIsLeftInIt) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(complaint(directory_), "");
    EXPECT_TRUE(fs::is_directory(directory_));
    EXPECT_TRUE(fs::is_empty(directory_));
  }
}

TEST_F(CheckDirectoryTest, AFileIsNone) {
  const fs::path file = temporary_.path() / "file";
  set_content(file, "mine");
  EXPECT_EQ(complaint(file), "cannot open " + file.string() + ": Not a directory" + kAdvice);
  EXPECT_EQ(complaint(file / "cache"), "cannot make " + (file / "cache").string() + ": Not a directory" + kAdvice);
  EXPECT_EQ(content_of(file), "mine");
}

TEST_F(CheckDirectoryTest, OneThatOthersCanWriteIntoIsRefused) {
  for (const fs::perms more : {fs::perms::group_write, fs::perms::others_write}) {
    fs::create_directories(directory_);
    fs::permissions(directory_, fs::perms::owner_all | more);
    EXPECT_THAT(complaint(directory_), EndsWith("chmod go-w '" + directory_.string() + "'"));
  }
}

// In a child, whose limits and user are nobody else's business.
template <typename Body>
void expect_in_child(const Body& body) {
  EXPECT_EXIT(std::_Exit(body() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(CheckDirectoryTest, OneWithoutPermissionIsRefused) {
  fs::create_directories(directory_);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  if (::geteuid() == 0) {
    for (const fs::path& path : {temporary_.path(), directory_.parent_path(), directory_}) {
      ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    }
  }
  expect_in_child([&] {
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return false;  // root may do anything
    const fs::path below = directory_ / "below";
    return complaint(directory_) == "cannot write into " + directory_.string() + ": Permission denied" + kAdvice &&
           complaint(below) == "cannot make " + below.string() + ": Permission denied" + kAdvice;
  });
}

TEST_F(CheckDirectoryTest, OneOnAFullDiskIsWarnedOf) {
  expect_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);  // then writing beyond the limit is an error, as on a full disk
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto check = check_directory(directory_);
    return check && check->warning.starts_with("cannot write " + directory_.string() + "/.redpoll-") &&
           check->warning.ends_with(".tmp: File too large") && fs::is_empty(directory_);
  });
  const auto check = check_directory(directory_);
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->warning, "");
}

// Of a process in another container, which has the number of this one.
TEST_F(CheckDirectoryTest, WhatAnotherProcessTriesWithIsLeftThere) {
  fs::create_directories(directory_);
  fs::permissions(directory_, fs::perms::owner_all);
  const std::string of_another = ".redpoll-" + std::to_string(::getpid()) + ".tmp";
  set_content(directory_ / of_another, "it is at it");
  EXPECT_EQ(complaint(directory_), "");
  EXPECT_EQ(content_of(directory_ / of_another), "it is at it");
}

}  // namespace
}  // namespace redpoll::cache
