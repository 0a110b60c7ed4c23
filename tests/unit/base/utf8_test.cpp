#include "base/utf8.h"

#include <gtest/gtest.h>

namespace redpoll {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string replacements(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += kReplacement;
  return out;
}

TEST(ReplaceInvalidUtf8, FollowsTheMaximalSubpartRule) {
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), replacements(3));
  EXPECT_EQ(replace_invalid_utf8("\xF0\x80\x80\x41"), replacements(3) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x80\x41"), replacements(1) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), replacements(4) + "A");
}

TEST(ReplaceInvalidUtf8, AgreesWithTheTablesOfTheUnicodeStandard) {
  // Unicode 15.0, tables 3-8 to 3-11: overlong forms, surrogates, other ill-formed and truncated sequences.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), replacements(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), replacements(8) + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            replacements(5) + "A" + replacements(2) + "B");
}

TEST(ReplaceInvalidUtf8, LeavesValidTextAlone) {
  const std::string text("plain, ä, €, 😀, \xF4\x8F\xBF\xBF, \0 too", 30);
  EXPECT_EQ(replace_invalid_utf8(text), text);
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST(IsValidUtf8, AcceptsEveryScalarValue) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code_point);
    ASSERT_TRUE(is_valid_utf8(text)) << static_cast<unsigned>(code_point);
    ASSERT_EQ(complete_utf8_prefix(text), text.size());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_FALSE(is_valid_utf8(std::string_view(text).substr(0, cut)));
      ASSERT_EQ(complete_utf8_prefix(std::string_view(text).substr(0, cut)), 0U);
    }
  }
}

TEST(IsValidUtf8, RefusesIllFormedSequences) {
  for (const char* text : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "ok\xE2"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << text;
  }
  EXPECT_TRUE(is_valid_utf8(""));
}

TEST(CompleteUtf8Prefix, HoldsBackOnlyWhatMoreBytesCouldComplete) {
  EXPECT_EQ(complete_utf8_prefix(""), 0U);
  EXPECT_EQ(complete_utf8_prefix("abc"), 3U);
  EXPECT_EQ(complete_utf8_prefix("ab\xE2\x82"), 2U);
  EXPECT_EQ(complete_utf8_prefix("ab\xE2\x82\xAC"), 5U);
  EXPECT_EQ(complete_utf8_prefix("\xF0\x9F\x98"), 0U);
  EXPECT_EQ(complete_utf8_prefix("a\xC3"), 1U);
  EXPECT_EQ(complete_utf8_prefix("\xF0\xE2"), 1U);  // only the second can still become a character
}

TEST(CompleteUtf8Prefix, LetsGoOfWhatCanNeverBeComplete) {
  EXPECT_EQ(complete_utf8_prefix("\x80\x80\x80"), 3U);
  EXPECT_EQ(complete_utf8_prefix("a\xED\xA0"), 3U);
  EXPECT_EQ(complete_utf8_prefix("\xF0\x80\x80"), 3U);
  EXPECT_EQ(complete_utf8_prefix("\xC0"), 1U);
  EXPECT_EQ(complete_utf8_prefix("\xFF"), 1U);
}

TEST(CompleteUtf8Prefix, StreamsOfAnyCutAreReplacedLikeTheWhole) {
  const std::string text = "a€😀\xED\xA0\x80 b\xF0\x9F\x98 \xE2\x82";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::size_t complete = complete_utf8_prefix(std::string_view(text).substr(0, cut));
    ASSERT_LE(complete, cut);
    EXPECT_EQ(replace_invalid_utf8(text.substr(0, complete)) + replace_invalid_utf8(text.substr(complete)),
              replace_invalid_utf8(text))
        << "cut at " << cut;
  }
}

TEST(AppendUtf8DeathTest, RefusesSurrogates) {
  std::string out;
  EXPECT_DEATH(append_utf8(out, 0xD800), "not a scalar value");
  EXPECT_DEATH(append_utf8(out, 0x110000), "not a scalar value");
}

TEST(Utf8, CountsCharactersNotBytes) {
  EXPECT_EQ(count_characters(""), 0U);
  EXPECT_EQ(count_characters("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), 4U);
}

TEST(Utf8, TellsHowMuchIsValid) {
  EXPECT_EQ(valid_utf8_prefix("a\xC3\xA9"), 3U);
  EXPECT_EQ(valid_utf8_prefix("a\xC3"), 1U);
  EXPECT_EQ(valid_utf8_prefix("ab\xED\xA0\x80"), 2U);
}

}  // namespace
}  // namespace redpoll
