#include "bench/conditions.h"

#include <gtest/gtest.h>

#include <chrono>

#include "bench/prompts.h"

namespace redpoll::bench {
namespace {

TEST(Conditions, TheProcessorsNameIsFoundAmongItsLines) {
  EXPECT_EQ(internal::cpu_name_in("processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 3 GHz \nflags\t: a\n"),
            "Some CPU @ 3 GHz");
}

TEST(Conditions, AFileWithoutANameGivesNone) {
  EXPECT_EQ(internal::cpu_name_in("processor\t: 0\nCPU part\t: 0xd0c\n"), "");
  EXPECT_EQ(internal::cpu_name_in("model name\n"), "");
  EXPECT_EQ(internal::cpu_name_in("model name\t:\n"), "");
}

TEST(Conditions, EveryMachineHasANameAndCores) {
  const Machine machine = describe_machine();
  EXPECT_NE(machine.cpu, "");
  EXPECT_GE(machine.usable_cores, 1);
}

TEST(Conditions, TimeIsWrittenInUtc) {
  EXPECT_EQ(internal::utc_time(std::chrono::system_clock::time_point{}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(internal::utc_time(std::chrono::system_clock::from_time_t(1709210096)), "2024-02-29T12:34:56Z");
}

TEST(Conditions, LabelsStandInOneColumn) {
  const Conditions conditions = {{"a", "a_key", 5}, {"longer", "b_key", "text"}, {"c", "c_key", 1.5}};
  EXPECT_EQ(to_text(conditions), "a       5\nlonger  text\nc       1.50\n");
  EXPECT_EQ(dump_json(to_json(conditions)), R"({"a_key":5,"b_key":"text","c_key":1.5})");
}

TEST(Conditions, StatesAreReadWholeAndTakeNothingPerToken) {
  engine::EngineStats stats;
  stats.block_tokens = 4;
  stats.kv_groups = {{.window = 0, .bytes_per_block = 40},
                     {.window = 6, .bytes_per_block = 8},
                     {.kind = cache::CacheKind::kRecurrent, .bytes_per_block = 1000}};
  EXPECT_EQ(kv_bytes_per_token(stats), 10 + 2);
  EXPECT_EQ(state_bytes(stats), 1000);
  EXPECT_EQ(kv_bytes_read(stats, 5, 1), 5 * (10 + 2) + 1000);
  EXPECT_EQ(kv_bytes_read(stats, 100, 1), 100 * 10 + 6 * 2 + 1000);
  EXPECT_EQ(kv_bytes_read(stats, 100, 16), 100 * 10 + (6 + 15) * 2 + 1000);
}

TEST(Prompts, ASeedGivesTheSamePromptsEverywhere) {
  PromptSource source(1);
  EXPECT_EQ(source.ids(4, 1000), PromptSource(1).ids(4, 1000));
  EXPECT_NE(source.ids(4, 1000), PromptSource(1).ids(4, 1000)) << "the second prompt of a source is another one";
  // mt19937_64's first output for the default seed 5489 is given by the standard's authors.
  EXPECT_EQ(PromptSource(5489).ids(1, 1'000'000'007).front(), 14514284786278117030ULL % 1'000'000'007);
}

TEST(Prompts, IdsStayInTheVocabulary) {
  for (const TokenId id : PromptSource(3).ids(10'000, 7)) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
  }
}

TEST(Prompts, WordsAreAsManyAsAskedFor) {
  EXPECT_EQ(PromptSource(1).words(0), "");
  const std::string text = PromptSource(1).words(100);
  EXPECT_EQ(std::ranges::count(text, ' '), 99);
}

}  // namespace
}  // namespace redpoll::bench
