#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"

namespace redpoll::text {
namespace {

struct Shown {
  std::string text;
  std::optional<int> matched;
  bool operator==(const Shown&) const = default;
};

Shown feed(StopStringMatcher matcher, const std::vector<std::string>& pieces) {
  Shown shown;
  for (const std::string& piece : pieces) {
    const StopStringMatcher::Output output = matcher.push(piece);
    shown.text += output.text;
    shown.matched = output.matched;
  }
  shown.text += matcher.flush();
  return shown;
}

// The definition, written without any cleverness: the match that ends first, of those the longest.
Shown expected(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<int> found;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const bool here = !stops[i].empty() && std::string_view(text).substr(0, end).ends_with(stops[i]);
      if (here && (!found || stops[i].size() > stops[static_cast<std::size_t>(*found)].size())) {
        found = static_cast<int>(i);
      }
    }
    if (found) return {text.substr(0, end - stops[static_cast<std::size_t>(*found)].size()), found};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, LetsNothingOfAStopStringThrough) {
  StopStringMatcher matcher({"DEFGHIJ"});
  for (const char* piece : {"D", "EF", "GH", "I"}) {
    const StopStringMatcher::Output output = matcher.push(piece);
    EXPECT_EQ(output.text, "");
    EXPECT_EQ(output.matched, std::nullopt);
  }
  const StopStringMatcher::Output output = matcher.push("JKLM");
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.matched, 0);
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_EQ(matcher.push("more").matched, 0);
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopStrings, FindsAMatchThatEndsInsideAPiece) {
  EXPECT_EQ(feed(StopStringMatcher({"beta gamma"}), {"alpha b", "eta ", "gamma del", "ta"}), (Shown{"alpha ", 0}));
}

TEST(StopStrings, GivesBackWhatOnlyBeganLikeAStopString) {
  StopStringMatcher matcher({"</end>"});
  EXPECT_EQ(matcher.push("a </en").text, "a ");
  EXPECT_EQ(matcher.push("ter> ").text, "</enter> ");
  EXPECT_EQ(matcher.push("</").text, "");
  EXPECT_EQ(matcher.flush(), "</");
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStringMatcher matcher({"\n\n"});
  EXPECT_EQ(matcher.push("line\n").text, "line");
  EXPECT_EQ(matcher.push("next\n").text, "\nnext");
  EXPECT_EQ(matcher.push("\nrest").matched, 0);
}

TEST(StopStrings, TakesTheMatchThatIsCompleteFirst) {
  EXPECT_EQ(feed(StopStringMatcher({"abcde", "cd"}), {"xabcdez"}), (Shown{"xab", 1}));
  EXPECT_EQ(feed(StopStringMatcher({"d", "bcd", "cd"}), {"abcd"}), (Shown{"a", 1}));
  EXPECT_EQ(feed(StopStringMatcher({"ab", "abc"}), {"abc"}), (Shown{"", 0}));
}

TEST(StopStrings, FindsStringsThatOverlapThemselves) {
  EXPECT_EQ(feed(StopStringMatcher({"aabaaa"}), {"aabaabaaa!"}), (Shown{"aab", 0}));
}

TEST(StopStrings, PassesOverEmptyStrings) {
  EXPECT_EQ(feed(StopStringMatcher({"", "b"}), {"abc"}), (Shown{"a", 1}));
  EXPECT_EQ(feed(StopStringMatcher({""}), {"abc"}), (Shown{"abc", std::nullopt}));
  EXPECT_EQ(feed(StopStringMatcher({}), {"abc", ""}), (Shown{"abc", std::nullopt}));
}

TEST(StopStrings, NeverSplitsACharacter) {
  StopStringMatcher matcher({"é!"});
  for (const char* piece : {"è", "é", "ê", "é", "!"}) EXPECT_TRUE(is_valid_utf8(matcher.push(piece).text));
}

TEST(StopStrings, DoNotDependOnHowTheTextIsCut) {
  std::mt19937 random(3);
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  const auto any_text = [&](int length) {
    std::string text;
    for (int i = 0; i < length; ++i) text += static_cast<char>('a' + below(3));
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(static_cast<std::size_t>(below(5)));
    for (std::string& stop : stops) stop = any_text(1 + below(6));
    const std::string text = any_text(below(30));
    const Shown want = expected(stops, text);
    for (int cut = 0; cut < 4; ++cut) {
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < text.size();) {
        const int drawn = below(1 + 3 * cut);
        const auto length = static_cast<std::size_t>(cut == 0 ? 1 : drawn);
        pieces.push_back(text.substr(at, length));
        at += length;
      }
      EXPECT_EQ(feed(StopStringMatcher(stops), pieces), want) << text;
    }
  }
}

}  // namespace
}  // namespace redpoll::text
