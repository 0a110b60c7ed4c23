#include "cli/command_line.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace redpoll::cli {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    for (const char* name : {"serve", "version"}) {
      FlagSet& flags = command_line_.add_verb(name, "Summary", [this, name] {
        ran_ = name;
        return exit_code_;
      });
      flags.whole("--port", port_, {0, 65535}, "Port");
    }
  }

  Outcome run(std::vector<std::string> arguments) {
    CaptureStdout();
    CaptureStderr();
    const int exit_code = command_line_.run(std::move(arguments));
    std::string out = GetCapturedStdout();
    return {exit_code, std::move(out), GetCapturedStderr()};
  }

  CommandLine command_line_;
  std::string ran_;
  int port_ = 8080;
  int exit_code_ = kExitFine;
};

TEST_F(CommandLineTest, NoVerbMeansServe) {
  EXPECT_EQ(run({}).exit_code, kExitFine);
  EXPECT_EQ(ran_, "serve");
  EXPECT_EQ(run({"--port", "1"}).exit_code, kExitFine);
  EXPECT_EQ(port_, 1);
}

TEST_F(CommandLineTest, AVerbIsRunWithItsExitCode) {
  exit_code_ = 7;
  EXPECT_EQ(run({"version"}).exit_code, 7);
  EXPECT_EQ(ran_, "version");
  EXPECT_EQ(run({"--version"}).exit_code, 7);
}

TEST_F(CommandLineTest, AVerbMayHaveTwoWordsBesideOneOfTheFirst) {
  for (const std::string name : {"bench", "bench serve"}) {
    FlagSet& flags = command_line_.add_verb(name, "Summary", [this, name] {
      ran_ = name;
      return kExitFine;
    });
    flags.whole("--port", port_, {0, 65535}, "Port");
  }
  EXPECT_EQ(run({"bench", "--port", "2"}).exit_code, kExitFine);
  EXPECT_EQ(ran_, "bench");
  EXPECT_EQ(run({"bench", "serve", "--port", "3"}).exit_code, kExitFine);
  EXPECT_EQ(ran_, "bench serve");
  EXPECT_EQ(port_, 3);
  EXPECT_THAT(run({"bench", "serve", "--prot", "3"}).err, HasSubstr("`redpoll bench serve --help` lists"));
  EXPECT_THAT(run({"help", "bench", "serve"}).out, HasSubstr("redpoll bench serve"));
}

TEST_F(CommandLineTest, AWordThatOnlyBeginsVerbsHasHelpOfItsOwn) {
  for (const std::string name : {"cache ls", "cache clear"}) {
    command_line_.add_verb(name, "Does " + name, [this, name] {
      ran_ = name;
      return kExitFine;
    });
  }
  const std::string help = run({"cache", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("usage: redpoll cache VERB [flags]"));
  EXPECT_THAT(help, HasSubstr("\n  cache ls     Does cache ls\n  cache clear  Does cache clear\n"));
  EXPECT_THAT(help, testing::Not(HasSubstr("version")));
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"cache", "-h"}, {"help", "cache"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, kExitFine);
    EXPECT_EQ(outcome.out, help);
    EXPECT_EQ(outcome.err, "");
  }
  const Outcome bare = run({"cache"});
  EXPECT_EQ(bare.exit_code, kExitUsage);
  EXPECT_EQ(bare.out, "");
  EXPECT_EQ(bare.err, "redpoll: cache needs one of its verbs\n\n" + help);
  const Outcome unknown = run({"cache", "cleer"});
  EXPECT_EQ(unknown.exit_code, kExitUsage);
  EXPECT_EQ(unknown.err,
            "redpoll: there is no command 'cache cleer'; did you mean cache clear?\n"
            "`redpoll cache --help` lists what there is.\n");
  EXPECT_EQ(run({"cach"}).exit_code, kExitUsage);
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandLineTest, UnknownVerbsAreErrorsWithSuggestions) {
  const Outcome near = run({"serv"});
  EXPECT_EQ(near.exit_code, kExitUsage);
  EXPECT_EQ(near.err,
            "redpoll: there is no command 'serv'; did you mean serve?\n`redpoll --help` lists what there is.\n");
  EXPECT_EQ(run({"zzzzzz"}).err, "redpoll: there is no command 'zzzzzz'\n`redpoll --help` lists what there is.\n");
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandLineTest, APathInPlaceOfAVerbIsTakenForAModel) {
  const std::string path = std::filesystem::temp_directory_path().string();
  EXPECT_THAT(run({path}).err, HasSubstr("; to serve that model: redpoll serve " + path + "\n"));
}

TEST_F(CommandLineTest, WrongFlagsPointToTheHelpOfTheirVerb) {
  const Outcome outcome = run({"version", "--port", "x"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "redpoll: --port: expected a whole number from 0 to 65535, got 'x'\n"
            "`redpoll version --help` lists what there is.\n");
  EXPECT_EQ(ran_, "");
}

TEST_F(CommandLineTest, HelpGoesToStandardOutputAndRunsNothing) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--help"}, {"-h"}, {"help"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, kExitFine);
    EXPECT_THAT(outcome.out, HasSubstr("usage: redpoll [verb] [flags]"));
  }
  EXPECT_THAT(run({"serve", "--help"}).out, HasSubstr("usage: redpoll serve [flags]"));
  EXPECT_THAT(run({"help", "serve"}).out, HasSubstr("usage: redpoll serve [flags]"));
  EXPECT_EQ(ran_, "");
}

}  // namespace
}  // namespace redpoll::cli
