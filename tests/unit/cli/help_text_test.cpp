#include "cli/help_text.h"

#include <gmock/gmock.h>

#include "unit/cli/example_flags.h"

namespace redpoll::cli {
namespace {

TEST(HelpText, AVerbShowsItsFlagsInGroupsWithDefaultsOnce) {
  const ExampleFlags example;
  EXPECT_EQ(verb_help("serve", "Serve a model", example.flags),
            R"(Serve a model

usage: redpoll serve [MODEL] [flags]

Model
  MODEL or --model M  Which one (the starter model)

Engine
  --max-batch N       Sequences computed in one step (8)
  --temperature X     0 takes the likeliest token
  --insecure          Without keys
  --allow-host HOST   Host name that clients may use; may be repeated
  --bits NAME         off, 8 or 4
  --config FILE       Settings

  -h, --help          Print this and leave

Any flag may also be given in the environment (REDPOLL_MAX_BATCH is --max-batch).
The command line wins.
)");
}

TEST(HelpText, LongDescriptionsBreakBetweenWordsUnderTheirColumn) {
  FlagSet flags;
  bool given = false;
  flags.toggle("--switch", given, "word " + std::string(80, 'x') + " last");
  EXPECT_THAT(verb_help("v", "s", flags),
              testing::HasSubstr("  --switch    word " + std::string(80, 'x') + "\n              last\n"));
}

TEST(HelpText, AVerbWithoutFlagsSaysNothingAboutTheEnvironment) {
  EXPECT_EQ(verb_help("v", "Summary", FlagSet()),
            "Summary\n\nusage: redpoll v [flags]\n\n  -h, --help  Print this and leave\n");
}

TEST(HelpText, TheProgramListsItsVerbs) {
  EXPECT_THAT(program_help({{"serve", "Serve a model"}, {"tokenize", "Print ids"}}),
              testing::HasSubstr("\nVerbs\n  serve     Serve a model\n  tokenize  Print ids\n\n"));
}

TEST(HelpText, AWordThatBeginsVerbsListsThem) {
  EXPECT_EQ(group_help("cache", {{"cache ls", "List"}, {"cache clear", "Remove"}}),
            "usage: redpoll cache VERB [flags]\n\nVerbs\n  cache ls     List\n  cache clear  Remove\n\n"
            "`redpoll cache VERB --help` lists a verb's flags.\n");
}

}  // namespace
}  // namespace redpoll::cli
