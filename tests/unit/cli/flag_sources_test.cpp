#include "cli/flag_sources.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "unit/cli/example_flags.h"

namespace redpoll::cli {
namespace {

using testing::ElementsAre;

struct Parsed : ExampleFlags {
  Status status;
  bool help = false;

  explicit Parsed(const std::vector<std::string>& arguments, bool with_environment = false) {
    auto given = read_arguments(flags, arguments);
    if (!given) {
      status = std::unexpected(given.error());
      return;
    }
    help = given->help;
    if (with_environment) add_environment(flags, given->assignments);
    status = assign(given->assignments);
  }
};

std::string error_of(const std::vector<std::string>& arguments) {
  const Parsed parsed(arguments);
  return parsed.status ? "no error" : parsed.status.error().message;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Arguments, ValuesFollowOrStandBehindEquals) {
  const Parsed parsed({"--max-batch", "4", "--temperature=0.5", "--insecure", "m"});
  ASSERT_TRUE(parsed.status);
  EXPECT_EQ(parsed.max_batch, 4);
  EXPECT_EQ(parsed.temperature, 0.5F);
  EXPECT_TRUE(parsed.insecure);
  EXPECT_EQ(parsed.model, "m");
}

TEST(Arguments, WhatIsNotGivenKeepsItsDefault) {
  const Parsed parsed({});
  EXPECT_EQ(parsed.max_batch, 8);
  EXPECT_EQ(parsed.temperature, std::nullopt);
  EXPECT_EQ(parsed.model, "none");
}

TEST(Arguments, OfARepeatedFlagTheLastCountsUnlessAllDo) {
  EXPECT_EQ(Parsed({"--max-batch", "4", "--max-batch", "5"}).max_batch, 5);
  EXPECT_THAT(Parsed({"--allow-host", "a", "--allow-host=b"}).hosts, ElementsAre("a", "b"));
}

TEST(Arguments, SwitchesCanBeTakenBack) {
  EXPECT_FALSE(Parsed({"--insecure", "--insecure=false"}).insecure);
  EXPECT_EQ(error_of({"--insecure=maybe"}), "--insecure: expected true or false, got 'maybe'");
}

TEST(Arguments, NothingIsAFlagAfterTwoDashes) {
  EXPECT_EQ(Parsed({"--", "--max-batch"}).model, "--max-batch");
  EXPECT_EQ(Parsed({"--max-batch", "4", "--"}).model, "none");
  EXPECT_EQ(error_of({"--", "a", "--insecure"}), "unexpected argument '--insecure'");
}

TEST(Arguments, OneDashIsAnArgument) { EXPECT_EQ(Parsed({"-"}).model, "-"); }

TEST(Arguments, ValuesMayBeginWithADash) {
  EXPECT_EQ(error_of({"--max-batch", "-1"}), "--max-batch: expected a whole number from 1 to 256, got -1");
  EXPECT_EQ(Parsed({"--model", "--- a title"}).model, "--- a title");
  EXPECT_EQ(Parsed({"--model=--insecure"}).model, "--insecure");
}

TEST(Arguments, AMissingValueIsAnError) {
  EXPECT_EQ(error_of({"--max-batch"}), "--max-batch needs a value: --max-batch N");
  EXPECT_EQ(error_of({"--max-batch", "--insecure"}), "--max-batch needs a value: --max-batch N");
  EXPECT_EQ(error_of({"--model", "--insecure"}),
            "--model needs a value: --model M; if '--insecure' is meant, write --model=--insecure");
  EXPECT_EQ(error_of({"--model", "--max-batch=3"}),
            "--model needs a value: --model M; if '--max-batch=3' is meant, write --model=--max-batch=3");
  EXPECT_EQ(error_of({"--max-batch="}), "--max-batch: expected a whole number from 1 to 256, got nothing");
}

TEST(Arguments, UnknownFlagsAreErrorsWithSuggestions) {
  EXPECT_EQ(error_of({"--max-bach", "3"}), "there is no flag '--max-bach'; did you mean --max-batch?");
  EXPECT_EQ(error_of({"--max_batch=3"}), "there is no flag '--max_batch'; did you mean --max-batch?");
  EXPECT_EQ(error_of({"-m", "x"}), "there is no flag '-m'");
}

TEST(Arguments, ASecondArgumentIsAnError) {
  EXPECT_EQ(error_of({"a", "b"}), "unexpected argument 'b'");
  EXPECT_EQ(error_of({"a", "--model", "b"}), "MODEL is given twice: as 'a' and as --model 'b'");
  FlagSet none;
  EXPECT_EQ(read_arguments(none, std::vector<std::string>{"a"}).error().message, "unexpected argument 'a'");
}

TEST(Arguments, HelpWinsOverWhatFollows) {
  EXPECT_TRUE(Parsed({"--max-batch", "4", "-h", "--frob"}).help);
  EXPECT_TRUE(Parsed({"--help"}).help);
  EXPECT_FALSE(Parsed({"--", "--help"}).help);
}

TEST(Arguments, TextMustBeUtf8) {
  EXPECT_EQ(error_of({"--model", "a\xff"}), "--model: expected valid UTF-8, got 'a\xEF\xBF\xBD'");
  EXPECT_EQ(error_of({"--allow-host="}), "--allow-host: expected some text, got nothing");
}

TEST(Environment, NamesFollowFromFlags) {
  EXPECT_EQ(environment_name("--max-batch"), "REDPOLL_MAX_BATCH");
  EXPECT_EQ(environment_name("--port"), "REDPOLL_PORT");
}

TEST(Environment, FillsWhatTheCommandLineLeavesOpen) {
  const Variable batch("REDPOLL_MAX_BATCH", "5");
  const Variable insecure("REDPOLL_INSECURE", "true");
  const Parsed parsed({"--max-batch", "4"}, true);
  EXPECT_EQ(parsed.max_batch, 4);
  EXPECT_TRUE(parsed.insecure);
  EXPECT_EQ(Parsed({}, true).max_batch, 5);
}

TEST(Environment, DoesNotAddToARepeatableFlag) {
  const Variable host("REDPOLL_ALLOW_HOST", "c");
  EXPECT_THAT(Parsed({"--allow-host", "a"}, true).hosts, ElementsAre("a"));
  EXPECT_THAT(Parsed({}, true).hosts, ElementsAre("c"));
}

TEST(Environment, EmptyVariablesAreNotSet) {
  const Variable batch("REDPOLL_MAX_BATCH", "");
  EXPECT_EQ(Parsed({}, true).max_batch, 8);
}

TEST(Environment, ErrorsNameTheVariable) {
  const Variable batch("REDPOLL_MAX_BATCH", "many");
  EXPECT_EQ(Parsed({}, true).status.error().message,
            "REDPOLL_MAX_BATCH: expected a whole number from 1 to 256, got 'many'");
}

}  // namespace
}  // namespace redpoll::cli
