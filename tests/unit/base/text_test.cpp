#include "base/text.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace redpoll {
namespace {

TEST(Text, TrimTakesSpaceAroundTheTextOnly) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, ShortTextIsShownWhole) {
  EXPECT_EQ(shortened(""), "");
  EXPECT_EQ(shortened(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(in_quotes("gpt-4"), "'gpt-4'");
}

TEST(Text, LongTextLosesItsEnd) {
  EXPECT_EQ(shortened(std::string(101, 'a')), std::string(97, 'a') + "...");
  EXPECT_EQ(in_quotes(std::string(1 << 20, 'a')), "'" + std::string(97, 'a') + "...'");
  EXPECT_EQ(shortened("abcdefgh", 7), "abcd...");
}

TEST(Text, NoCharacterIsCutInTwo) {
  const std::string euro = "\xE2\x82\xAC";
  for (std::size_t max_bytes = 4; max_bytes < 20; ++max_bytes) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += euro;
    const std::string kept = shortened(text, max_bytes);
    EXPECT_TRUE(is_valid_utf8(kept)) << max_bytes;
    EXPECT_EQ(kept.find("\xEF\xBF\xBD"), std::string::npos) << max_bytes;
    EXPECT_LE(kept.size(), max_bytes);
  }
}

TEST(Text, WhatIsPrintedHoldsNoControlCharacters) {
  EXPECT_EQ(printable("plain \xE2\x82\xAC text"), "plain \xE2\x82\xAC text");
  EXPECT_EQ(printable("\x1B[31mred\r\n\t"), "\\x1b[31mred\\x0d\\n\\x09");
  EXPECT_EQ(printable(std::string_view("a\0b\x7F", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m")
      << "the one-character form of ESC [";
  EXPECT_EQ(printable("\xC2\xA0"), "\xC2\xA0") << "the first that is no control character";
  EXPECT_EQ(printable("a\xFF\xC2"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Text, BrokenBytesAreReplaced) {
  EXPECT_EQ(in_quotes("a\xFF"), "'a\xEF\xBF\xBD'");
  EXPECT_TRUE(is_valid_utf8(shortened(std::string(500, '\xFF'))));
}

}  // namespace
}  // namespace redpoll
