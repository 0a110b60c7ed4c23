#include "server/choice_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/server/tiny_tokenizer.h"

namespace redpoll::server {
namespace {

struct Seen {
  std::vector<std::string> deltas;
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<api::ToolCall> calls;
  bool stopped = false;
};

// Everything that comes out for `ids`, a delta per token and one for the end.
Seen run(const std::vector<TokenId>& ids, const ChoiceTextOptions& options,
         const std::vector<std::string>& extra_tokens = {}) {
  const auto tokenizer = tiny_tokenizer(extra_tokens);
  ChoiceText choice(*tokenizer, text::Detokenizer(*tokenizer), options);
  Seen seen;
  const auto add = [&seen](const api::ChoiceDelta& delta) {
    seen.deltas.push_back(delta.text);
    seen.text += delta.text;
    for (const api::TokenInfo& token : delta.tokens) seen.tokens.push_back(token.id);
    seen.calls.insert(seen.calls.end(), delta.tool_calls.begin(), delta.tool_calls.end());
  };
  for (const TokenId id : ids) {
    api::ChoiceDelta delta;
    seen.stopped = choice.push({.choice = 0, .id = id, .logprob = -1, .top = {}}, delta);
    add(delta);
    if (seen.stopped) return seen;
  }
  api::ChoiceDelta delta;
  choice.finish(delta);
  add(delta);
  return seen;
}

TEST(ChoiceTextTest, PlainTextComesOutTokenByToken) {
  const Seen seen = run(byte_tokens("abc"), {});
  EXPECT_EQ(seen.deltas, (std::vector<std::string>{"a", "b", "c", ""}));
}

TEST(ChoiceTextTest, NoPartOfAStopStringEverComesOut) {  // user case 1
  const Seen seen = run(byte_tokens("DEFGHIJKL"), {.stop = {"DEFGHIJ"}});
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.text, "");
  EXPECT_EQ(seen.deltas.size(), 7U);
}

TEST(ChoiceTextTest, StopStringInsideTokensCutsTheTextExactlyAndKeepsItsTokens) {  // user case 3
  const std::vector<std::string> extra = {"alpha ", "beta", " gam", "ma de", "lta"};
  const TokenId first = kFirstExtraToken;
  const Seen seen =
      run({first, first + 1, first + 2, first + 3, first + 4}, {.stop = {"beta gamma"}, .with_tokens = true}, extra);
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.text, "alpha ");
  EXPECT_EQ(seen.tokens, (std::vector<TokenId>{first, first + 1, first + 2, first + 3}));
}

TEST(ChoiceTextTest, TokensUpToTheOneThatCompletesTheStopStringAreShown) {
  const std::vector<std::string> extra = {"one tw", "o three"};
  const Seen seen = run({kFirstExtraToken, kFirstExtraToken + 1}, {.stop = {"two"}, .with_tokens = true}, extra);
  EXPECT_EQ(seen.text, "one ");
  EXPECT_EQ(seen.tokens, (std::vector<TokenId>{kFirstExtraToken, kFirstExtraToken + 1}));
}

TEST(ChoiceTextTest, TextThatOnlyBeganLikeAStopStringComesOutWithItsTokens) {
  const Seen seen = run(byte_tokens("a DEFx"), {.stop = {"DEFGHIJ"}, .with_tokens = true});
  EXPECT_FALSE(seen.stopped);
  EXPECT_EQ(seen.text, "a DEFx");
  EXPECT_EQ(seen.deltas, (std::vector<std::string>{"a", " ", "", "", "", "DEFx", ""}));
  EXPECT_EQ(seen.tokens, byte_tokens("a DEFx"));
}

TEST(ChoiceTextTest, HeldTextComesOutAtTheEnd) {
  const Seen seen = run(byte_tokens("a DEF"), {.stop = {"DEFGHIJ"}, .with_tokens = true});
  EXPECT_EQ(seen.text, "a DEF");
  EXPECT_EQ(seen.deltas.back(), "DEF");
  EXPECT_EQ(seen.tokens, byte_tokens("a DEF"));
}

TEST(ChoiceTextTest, HalfCharactersNeverComeOut) {  // user case 8
  const Seen seen = run(byte_tokens("\xE2\x82\xAC!"), {.with_tokens = true});
  EXPECT_EQ(seen.deltas, (std::vector<std::string>{"", "", "\xE2\x82\xAC", "!", ""}));
  EXPECT_EQ(seen.tokens.size(), 4U);
}

TEST(ChoiceTextTest, BytesThatAreNoCharacterBecomeReplacements) {  // user case 8
  const std::string replacement = "\xEF\xBF\xBD";
  const auto repeat = [&](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += replacement;
    return out;
  };
  EXPECT_EQ(run(byte_tokens("\xED\xA0\x80"), {}).text, repeat(3));
  EXPECT_EQ(run(byte_tokens("\xF0\x80\x80\x41"), {}).text, repeat(3) + "A");
  EXPECT_EQ(run(byte_tokens("\xE2\x80\x41"), {}).text, repeat(1) + "A");
  EXPECT_EQ(run(byte_tokens("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), {}).text, repeat(4) + "A");
}

TEST(ChoiceTextTest, StopStringsAreNotLookedForBeforeMinTokens) {
  EXPECT_EQ(run(byte_tokens("xx.yy.zz"), {.stop = {"."}, .min_tokens = 5}).text, "xx.yy");
  EXPECT_EQ(run(byte_tokens("xx.yy.zz"), {.stop = {"."}, .min_tokens = 3}).text, "xx");
}

TEST(ChoiceTextTest, WithoutBeingAskedItGivesNoTokens) { EXPECT_TRUE(run(byte_tokens("abc"), {}).tokens.empty()); }

TEST(ChoiceTextTest, TextTypedLikeASpecialTokenIsText) {  // user case 5
  const Seen seen = run(byte_tokens("the token <|end|> ends"), {});
  EXPECT_EQ(seen.text, "the token <|end|> ends");
}

constexpr std::string_view kCall = R"(<tool_call>{"name": "now"}</tool_call>)";

text::ToolCallOptions reads_calls(int max_calls = 9) {
  const json::array tools = {json::object{{"function", {{"name", "now"}}}}};
  return {.format = text::ToolCallFormat::kJson,
          .tools = std::make_shared<const text::ToolSchemas>(tools),
          .max_calls = max_calls};
}

TEST(ChoiceTextTest, CallsComeOutApartFromTheText) {
  const std::string answer = "So: " + std::string(kCall) + "\n" + std::string(kCall) + "\n";
  const Seen seen = run(byte_tokens(answer), {.with_tokens = true, .tool_calls = reads_calls()});
  EXPECT_EQ(seen.text, "So: ");
  ASSERT_EQ(seen.calls.size(), 2U);
  for (int i = 0; i < 2; ++i) {
    const api::ToolCall& call = seen.calls[static_cast<std::size_t>(i)];
    EXPECT_EQ(call.index, i);
    EXPECT_EQ(call.name, "now");
    EXPECT_EQ(call.arguments, "{}");
    EXPECT_EQ(call.id.size(), 37U);
    EXPECT_TRUE(call.id.starts_with("call_"));
  }
  EXPECT_NE(seen.calls[0].id, seen.calls[1].id);
  EXPECT_EQ(seen.tokens, byte_tokens(answer)) << "they were generated, whatever they became";
  EXPECT_FALSE(seen.stopped);
}

TEST(ChoiceTextTest, WithoutToolsMarkupIsText) {
  EXPECT_EQ(run(byte_tokens(kCall), {}).text, kCall);
  EXPECT_TRUE(run(byte_tokens(kCall), {}).calls.empty());
}

TEST(ChoiceTextTest, AStopStringInsideACallLeavesTheMarkupBeforeIt) {
  const Seen seen = run(byte_tokens(kCall), {.stop = {"name"}, .with_tokens = true, .tool_calls = reads_calls()});
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.text, R"(<tool_call>{")");
  EXPECT_TRUE(seen.calls.empty());
  EXPECT_EQ(seen.tokens.size(), std::string_view(R"(<tool_call>{"name)").size());
}

TEST(ChoiceTextTest, AStopStringAfterACallIsFound) {
  const Seen seen = run(byte_tokens(std::string(kCall) + "a b"), {.stop = {" b"}, .tool_calls = reads_calls()});
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.calls.size(), 1U);
  EXPECT_EQ(seen.text, "a");
}

TEST(ChoiceTextTest, TheLastCallThatIsWantedEndsTheChoice) {
  const std::string answer = std::string(kCall) + "\n" + std::string(kCall);
  const Seen seen = run(byte_tokens(answer), {.stop = {">!"}, .with_tokens = true, .tool_calls = reads_calls(1)});
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.calls.size(), 1U);
  EXPECT_EQ(seen.text, "");
  EXPECT_EQ(seen.tokens, byte_tokens(std::string(kCall) + "\n")) << "the line break tells that it is no stop string";
}

TEST(ChoiceTextTest, TheLastCallThatIsWantedWaitsForMinTokens) {
  const ChoiceTextOptions options{.min_tokens = 60, .with_tokens = true, .tool_calls = reads_calls(1)};
  const Seen seen = run(byte_tokens(std::string(kCall) + std::string(60, 'a')), options);
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.calls.size(), 1U);
  EXPECT_EQ(seen.tokens.size(), 60U);
  EXPECT_EQ(seen.text, "");
}

TEST(ChoiceTextTest, CallsInOneTokenAreAllRead) {
  const std::string both = std::string(kCall) + std::string(kCall);
  EXPECT_EQ(run({kFirstExtraToken}, {.tool_calls = reads_calls()}, {both}).calls.size(), 2U);
  EXPECT_EQ(run({kFirstExtraToken}, {.tool_calls = reads_calls(1)}, {both}).calls.size(), 1U);
}

// The offsets of everything that comes out for `ids`.
std::vector<std::size_t> offsets(const std::vector<TokenId>& ids, ChoiceTextOptions options = {}) {
  const auto tokenizer = tiny_tokenizer({" a", "\xE2\x82\xAC\xE2\x82\xAC"});
  options.with_tokens = true;
  ChoiceText choice(*tokenizer, text::Detokenizer(*tokenizer), options);
  api::ChoiceDelta delta;
  const bool is_stopped = std::ranges::any_of(
      ids, [&](TokenId id) { return choice.push({.choice = 0, .id = id, .logprob = -1, .top = {}}, delta); });
  if (!is_stopped) choice.finish(delta);
  std::vector<std::size_t> found;
  for (const api::TokenInfo& token : delta.tokens) found.push_back(token.text_offset);
  return found;
}

TEST(ChoiceTextTest, OffsetsCountTheCharactersThatTheClientSeesBefore) {
  using Offsets = std::vector<std::size_t>;
  EXPECT_EQ(offsets(byte_tokens("abc")), (Offsets{0, 1, 2}));
  EXPECT_EQ(offsets(byte_tokens("abc"), {.num_characters_before = 7}), (Offsets{7, 8, 9}));
  EXPECT_EQ(offsets({kFirstExtraToken + 1, 'x', kFirstExtraToken, 'y'}), (Offsets{0, 2, 3, 5}));
  EXPECT_EQ(offsets(byte_tokens("\xE2\x82\xAC!")), (Offsets{0, 0, 0, 1}));
}

TEST(ChoiceTextTest, NoOffsetOfAStopStringLiesBeyondTheText) {
  using Offsets = std::vector<std::size_t>;
  EXPECT_EQ(offsets(byte_tokens("ab<|>"), {.stop = {"<|>"}}), (Offsets{0, 1, 2, 2, 2}));
  EXPECT_EQ(offsets(byte_tokens("ab<|>"), {.stop = {"<|>"}, .num_characters_before = 3}), (Offsets{3, 4, 5, 5, 5}));
}

TEST(ChoiceTextTest, TokensWithoutTextMoveNoOffset) {
  using Offsets = std::vector<std::size_t>;
  EXPECT_EQ(offsets({kStartToken, 'a', kStartToken, kStartToken, 'b'}), (Offsets{0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace redpoll::server
