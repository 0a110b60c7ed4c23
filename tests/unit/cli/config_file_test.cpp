#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "unit/cli/example_flags.h"

namespace redpoll::cli {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("redpoll_config_" + std::to_string(::getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // Reads `text` into the example's flags, over the values of `stronger` sources.
  Status read(std::string_view text, std::vector<Assignment> stronger = {}) {
    std::ofstream(path_, std::ios::binary) << text;
    ASSIGN_OR_RETURN(std::vector<Assignment> settings, read_config_file(path_, example_.flags));
    add_settings(std::move(settings), stronger);
    return assign(stronger);
  }
  // Without the file's path.
  std::string error_of(std::string_view text) {
    const Status status = read(text);
    if (status) return "no error";
    EXPECT_THAT(status.error().message, StartsWith(path_.string() + ":"));
    return status.error().message.substr(path_.string().size() + 1);
  }

  std::filesystem::path path_;
  ExampleFlags example_;
};

TEST_F(ConfigFile, SetsFlagsOfEveryKind) {
  ASSERT_TRUE(
      read("# a server\nmodel = \"org/name\"\nmax-batch = 4\ntemperature = 0.5\ninsecure = true\n"
           "allow-host = [\"a\", \"b\"]\n"));
  EXPECT_EQ(example_.model, "org/name");
  EXPECT_EQ(example_.max_batch, 4);
  EXPECT_EQ(example_.temperature, 0.5F);
  EXPECT_TRUE(example_.insecure);
  EXPECT_THAT(example_.hosts, ElementsAre("a", "b"));
}

TEST_F(ConfigFile, ARepeatableFlagTakesOneStringToo) {
  ASSERT_TRUE(read("allow-host = 'a'"));
  EXPECT_THAT(example_.hosts, ElementsAre("a"));
}

TEST_F(ConfigFile, AWordThatIsANumberNeedsNoQuotes) {
  for (const char* text : {"bits = 8", "bits = '8'", "bits = \"8\"", "bits = 8.0", "bits = 0x8"}) {
    example_.bits = "off";
    ASSERT_TRUE(read(text)) << text;
    EXPECT_EQ(example_.bits, "8") << text;
  }
  ASSERT_TRUE(read("bits = 'off'"));
  EXPECT_EQ(example_.bits, "off");
  EXPECT_EQ(error_of("bits = 5"), "1: bits: expected off, 8 or 4, got 5");
  EXPECT_EQ(error_of("bits = 4.5"), "1: bits: expected off, 8 or 4, got 4.5");
  EXPECT_EQ(error_of("bits = false"), "1: bits: expected a string or a number, got true or false");
}

TEST_F(ConfigFile, AnEmptyFileSetsNothing) {
  ASSERT_TRUE(read(""));
  EXPECT_EQ(example_.max_batch, 8);
}

TEST_F(ConfigFile, IsWeakerThanOtherSources) {
  ASSERT_TRUE(
      read("max-batch = 4\nallow-host = ['a']\n", {{example_.flags.find("--max-batch"), "5", "--max-batch"},
                                                   {example_.flags.find("--allow-host"), "b", "--allow-host"}}));
  EXPECT_EQ(example_.max_batch, 5);
  EXPECT_THAT(example_.hosts, ElementsAre("b"));
}

TEST_F(ConfigFile, UnknownSettingsAreErrorsWithSuggestions) {
  EXPECT_EQ(error_of("max-batch = 4\nmax-bach = 3\n"), "2: there is no setting 'max-bach'; did you mean max-batch?");
  EXPECT_EQ(error_of("max_batch = 4\n"), "1: there is no setting 'max_batch'; did you mean max-batch?");
  EXPECT_EQ(error_of("[serve]\nmax-batch = 4\n"), "1: there is no setting 'serve'");
  EXPECT_EQ(error_of("config = 'x'\n"), "1: there is no setting 'config'");
  EXPECT_EQ(error_of("help = true\n"), "1: there is no setting 'help'");
}

TEST_F(ConfigFile, TheFirstMistakeInTheFileIsShown) {
  EXPECT_EQ(error_of("zebra = 1\n\naardvark = 2\n"), "1: there is no setting 'zebra'");
}

TEST_F(ConfigFile, TypesMustFit) {
  EXPECT_EQ(error_of("max-batch = '4'\n"), "1: max-batch: expected a number, got a string");
  EXPECT_EQ(error_of("max-batch = [4]\n"), "1: max-batch: expected a number, got a list");
  EXPECT_EQ(error_of("model = 4\n"), "1: model: expected a string, got a number");
  EXPECT_EQ(error_of("model = 1979-05-27\n"), "1: model: expected a string, got a date or time");
  EXPECT_EQ(error_of("insecure = 1\n"), "1: insecure: expected true or false, got a number");
  EXPECT_EQ(error_of("allow-host = ['a', 3]\n"), "1: allow-host: expected a string or a list of strings, got a number");
  EXPECT_EQ(error_of("allow-host = true\n"),
            "1: allow-host: expected a string or a list of strings, got true or false");
  EXPECT_EQ(error_of("[max-batch]\nx = 1\n"), "1: max-batch: expected a number, got a table");
}

TEST_F(ConfigFile, ValuesAreCheckedAsOnTheCommandLine) {
  EXPECT_EQ(error_of("\nmax-batch = 999\n"), "2: max-batch: expected a whole number from 1 to 256, got 999");
  EXPECT_EQ(error_of("max-batch = 2.5\n"), "1: max-batch: expected a whole number from 1 to 256, got 2.5");
  EXPECT_EQ(error_of("temperature = nan\n"), "1: temperature: expected a number from 0 to 2, got 'nan'");
  EXPECT_EQ(error_of("temperature = inf\n"), "1: temperature: expected a number from 0 to 2, got 'inf'");
  EXPECT_EQ(error_of("allow-host = ['']\n"), "1: allow-host: expected some text, got nothing");
}

TEST_F(ConfigFile, WhatIsNotTomlIsAnErrorWithItsLine) {
  EXPECT_THAT(error_of("model = 'a'\nmax-batch 4\n"), StartsWith("2: "));
  EXPECT_THAT(error_of("model = \"a\n"), StartsWith("1: "));
  EXPECT_THAT(error_of("max-batch = 1\nmax-batch = 2\n"), StartsWith("2: "));
  EXPECT_THAT(error_of("model = '\xff'\n"), StartsWith("1: "));
  EXPECT_THAT(error_of("x = " + std::string(100'000, '[')), StartsWith("1: "));
}

TEST_F(ConfigFile, AMissingFileIsAnErrorWithItsName) {
  EXPECT_EQ(read_config_file(path_, example_.flags).error().message,
            "cannot open " + path_.string() + ": No such file or directory");
}

}  // namespace
}  // namespace redpoll::cli
