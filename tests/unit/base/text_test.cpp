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

TEST(Text, BrokenBytesAreReplaced) {
  EXPECT_EQ(in_quotes("a\xFF"), "'a\xEF\xBF\xBD'");
  EXPECT_TRUE(is_valid_utf8(shortened(std::string(500, '\xFF'))));
}

}  // namespace
}  // namespace redpoll
