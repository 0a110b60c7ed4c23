#include "cli/suggestions.h"

#include <gmock/gmock.h>

namespace redpoll::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Suggestions, AreNearestFirst) {
  EXPECT_THAT(near_matches("--prt", {"--host", "--port"}), ElementsAre("--port"));
  EXPECT_THAT(near_matches("--max-quee", {"--max-batch", "--max-queue"}), ElementsAre("--max-queue"));
  EXPECT_THAT(near_matches("abcdef", {"abcdxx", "abcdex", "abcdef"}), ElementsAre("abcdef", "abcdex", "abcdxx"));
}

TEST(Suggestions, AreAtMostThree) {
  EXPECT_THAT(near_matches("abcdef", {"abcdex", "abcdey", "abcdez", "abcdev"}),
              ElementsAre("abcdev", "abcdex", "abcdey"));
}

TEST(Suggestions, IncludeWhatTheWordBegins) {
  EXPECT_THAT(near_matches("--temp", {"--temperature", "--top-p"}), ElementsAre("--temperature"));
  EXPECT_THAT(near_matches("--t", {"--temperature", "--top-p"}), IsEmpty());
}

TEST(Suggestions, IncludeWhatTheWordGoesOnFrom) {
  EXPECT_THAT(near_matches("--context-length", {"--context", "--host"}), ElementsAre("--context"));
  EXPECT_THAT(near_matches("--contextual-length", {"--context"}), IsEmpty());
}

TEST(Suggestions, DisregardLetterCase) { EXPECT_THAT(near_matches("--PORT", {"--port"}), ElementsAre("--port")); }

TEST(Suggestions, AreNotMadeUp) {
  EXPECT_THAT(near_matches("frobnicate", {"serve", "chat"}), IsEmpty());
  EXPECT_THAT(near_matches("", {"serve"}), IsEmpty());
  EXPECT_THAT(near_matches("--", {"--port"}), IsEmpty());
}

TEST(Suggestions, AreSaidAsAQuestion) {
  EXPECT_EQ(did_you_mean("serv", {"serve", "chat"}), "; did you mean serve?");
  EXPECT_EQ(did_you_mean("--top", {"--top-p", "--top-k"}), "; did you mean --top-k or --top-p?");
  EXPECT_EQ(did_you_mean("zzz", {"serve"}), "");
}

}  // namespace
}  // namespace redpoll::cli
