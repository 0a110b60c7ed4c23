#include "server/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace redpoll::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ApiKeysTest : public ::testing::Test {
 protected:
  ApiKeysTest() : file_(fs::path(::testing::TempDir()) / ("redpoll_keys_" + std::to_string(std::random_device{}()))) {}
  ~ApiKeysTest() override { fs::remove(file_); }

  Result<ApiKeys> read(const std::string& content, fs::perms mode = fs::perms::owner_read) {
    std::ofstream(file_, std::ios::binary) << content;
    fs::permissions(file_, mode);
    return read_api_keys(file_);
  }

  fs::path file_;
};

TEST_F(ApiKeysTest, OneKeyALineWithCommentsAndBlankLinesSkipped) {
  const auto keys = read("# clients\nfirst\n\n  second \r\n# third\nlast");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_THAT(keys->keys, ElementsAre("first", "second", "last"));
  EXPECT_EQ(keys->warning, "");
}

TEST_F(ApiKeysTest, FileThatOthersCanReadIsAWarning) {
  const auto keys = read("k\n", fs::perms::owner_read | fs::perms::others_read);
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->warning, "other users of this machine can read key file '" + file_.string() + "': chmod 600 it");
}

TEST_F(ApiKeysTest, FileWithoutKeysIsRefusedRatherThanLettingEverybodyIn) {
  const auto keys = read("# nothing\n\n");
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().message, "key file '" + file_.string() + "' has no keys: expected one a line");
}

TEST_F(ApiKeysTest, KeyThatNoHeaderCanCarryNamesItsLine) {
  const auto keys = read("good\nb\xC3\xA9\n");
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().message, HasSubstr("line 2 of key file"));
}

TEST_F(ApiKeysTest, MissingFileIsAnError) {
  const auto keys = read_api_keys("/nonexistent/keys");
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, ErrorCode::kNotFound);
}

TEST(ExposureTest, OtherMachinesNeedKeysOrAnExplicitWord) {
  for (const char* host : {"127.0.0.1", "localhost", "::1", "[::1]"}) EXPECT_TRUE(check_exposure({.host = host}));
  EXPECT_TRUE(check_exposure({.host = "0.0.0.0", .has_keys = true}));
  EXPECT_TRUE(check_exposure({.host = "0.0.0.0", .insecure = true}));
  for (const char* host : {"::", "192.168.1.2", "", "127.0.0.1.example"}) {
    EXPECT_FALSE(check_exposure({.host = host})) << host;
  }
  const auto refused = check_exposure({.host = "0.0.0.0"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "refusing to serve other machines on '0.0.0.0' without keys: give --api-key-file, or --insecure if everybody "
      "who reaches this address may use it");
}

TEST(ExposureTest, AnOpenServerIsWarnedAbout) {
  EXPECT_EQ(exposure_warning({.host = "0.0.0.0", .insecure = true}, "0.0.0.0:8080"),
            "INSECURE: 0.0.0.0:8080 serves every machine that can reach it, without asking for a key: all of them may "
            "use the model and read /stats and /metrics; --api-key-file closes it");
  EXPECT_EQ(exposure_warning({.host = "0.0.0.0", .has_keys = true}, "0.0.0.0:8080"), "");
  EXPECT_EQ(exposure_warning({.host = "127.0.0.1"}, "127.0.0.1:8080"), "");
}

TEST(ExposureTest, AWordThatChangesNothingIsSaidToo) {
  EXPECT_EQ(exposure_warning({.host = "0.0.0.0", .has_keys = true, .insecure = true}, "0.0.0.0:1"),
            "--insecure changes nothing: clients need a key of --api-key-file");
  EXPECT_EQ(exposure_warning({.host = "[::1]", .insecure = true}, "[::1]:1"),
            "--insecure changes nothing: [::1]:1 is open to this machine only");
}

}  // namespace
}  // namespace redpoll::server
