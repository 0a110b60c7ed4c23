#include "base/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace redpoll {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "redpoll_file_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  [[nodiscard]] std::ptrdiff_t num_files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  }

  std::filesystem::path folder_;
};

TEST_F(FileTest, ReadsTheWholeContent) {
  const std::string content("binary \0 content\n", 17);
  EXPECT_EQ(read_file(write("a", content)).value(), content);
  EXPECT_EQ(read_file(write("empty", "")).value(), "");
}

TEST_F(FileTest, AMissingFileIsNotFound) {
  const auto path = folder_ / "nowhere";
  for (const Error& error : {read_file(path).error(), MappedFile::open(path).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_EQ(error.message, "cannot open " + path.string() + ": No such file or directory");
  }
  EXPECT_EQ(read_file(write("plain", "") / "below").error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& path : {folder_, pipe}) {
    EXPECT_EQ(read_file(path).error().code, ErrorCode::kIo);
    EXPECT_EQ(read_file(path).error().message, "not a regular file: " + path.string());
    EXPECT_EQ(MappedFile::open(path).error().message, "not a regular file: " + path.string());
  }
}

TEST_F(FileTest, AFileOverTheLimitIsRefusedWithBothNumbers) {
  const auto path = write("big", "12345");
  EXPECT_EQ(read_file(path, 5).value(), "12345");
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::kIo);
  EXPECT_EQ(read_file(path, 4).error().message, path.string() + " has 5 bytes, more than the 4 expected at most");
}

TEST_F(FileTest, MapsContentForAsLongAsItIsHeld) {
  const auto path = write("weights", "0123456789");
  auto file = MappedFile::open(path).value();
  EXPECT_EQ(file->path(), path);
  std::filesystem::remove(path);
  ASSERT_EQ(file->bytes().size(), 10U);
  EXPECT_EQ(file->bytes()[9], std::byte{'9'});
}

TEST_F(FileTest, AnEmptyFileMapsToNoBytes) {
  EXPECT_TRUE(MappedFile::open(write("empty", "")).value()->bytes().empty());
}

TEST_F(FileTest, OpenFilesAreClosed) {
  const auto path = write("a", "x");
  const int before = dup(0);
  close(before);
  for (int i = 0; i < 5; ++i) {
    (void)read_file(path);
    (void)read_file(folder_);
    (void)MappedFile::open(path);
  }
  const int after = dup(0);
  close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace redpoll
