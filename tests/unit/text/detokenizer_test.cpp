#include "text/detokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "unit/text/golden.h"

namespace redpoll::text {
namespace {

using testing::ElementsAre;

const std::string kReplacement = "\xEF\xBF\xBD";

// The pieces of `ids`, and the flush as the last one.
std::vector<std::string> pieces_of(Detokenizer detokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(detokenizer.push(id));
  pieces.push_back(detokenizer.flush());
  return pieces;
}

std::string join(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// Ids of tokens by their spelling in the file.
std::vector<TokenId> ids_of(const Tokenizer& tokenizer, const std::vector<std::string>& spellings) {
  std::vector<TokenId> ids;
  for (const std::string& spelling : spellings) ids.push_back(tokenizer.token_to_id(spelling).value());
  return ids;
}

std::vector<TokenId> fallback_bytes(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const unsigned char byte : bytes) {
    char spelling[8];
    std::snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
    ids.push_back(tokenizer.token_to_id(spelling).value());
  }
  return ids;
}

class EveryDetokenizer : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ = golden_tokenizer(GetParam());
  const std::vector<TokenizerCase> cases_ = golden_cases(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Golden, EveryDetokenizer, testing::Values("byte_level", "sentencepiece_bpe", "unigram"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryDetokenizer, GivesWholeCharactersThatAddUpToTheText) {
  for (const TokenizerCase& golden : cases_) {
    const auto pieces = pieces_of(Detokenizer(*tokenizer_, {.starts_text = true}), golden.ids_with_special);
    EXPECT_EQ(join(pieces), golden.decoded_without_special) << golden.text;
    for (const std::string& piece : pieces) EXPECT_TRUE(is_valid_utf8(piece)) << golden.text;
    EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer_, {.skip_special_tokens = false, .starts_text = true}),
                             golden.ids_with_special)),
              golden.decoded);
  }
}

// Wherever a text is cut into prompt and answer: the answer is the whole text less the prompt's.
TEST_P(EveryDetokenizer, ContinuesAPromptCutAnywhere) {
  for (const TokenizerCase& golden : cases_) {
    const std::span<const TokenId> ids = golden.ids_with_special;
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
      Detokenizer prompt(*tokenizer_, {.starts_text = true});
      std::string shown;  // the prompt's whole characters
      for (const TokenId id : ids.first(cut)) shown += prompt.push(id);
      const std::vector<TokenId> rest(ids.begin() + static_cast<std::ptrdiff_t>(cut), ids.end());
      EXPECT_EQ(shown + join(pieces_of(Detokenizer(*tokenizer_, ids.first(cut)), rest)), golden.decoded_without_special)
          << golden.text << " cut at " << cut;
    }
  }
}

TEST_P(EveryDetokenizer, EqualsDecodeForTokensInAnyOrder) {
  std::mt19937 random(7);
  std::uniform_int_distribution<TokenId> any(0, tokenizer_->vocab_size() - 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> ids(40);
    for (TokenId& id : ids) id = any(random);
    const auto pieces = pieces_of(Detokenizer(*tokenizer_, {.starts_text = true}), ids);
    for (const std::string& piece : pieces) EXPECT_TRUE(is_valid_utf8(piece));
    EXPECT_EQ(join(pieces), *tokenizer_->decode(ids, {.skip_special_tokens = true}));
  }
}

TEST_P(EveryDetokenizer, PassesOverIdsOutsideTheVocabulary) {
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer_), {-1, tokenizer_->vocab_size(), 2147483647})), "");
}

TEST(Detokenizer, ReplacesEachMaximalSubpartOfACharacter) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const auto text = [&](std::string_view bytes) {
    return join(pieces_of(Detokenizer(*tokenizer), fallback_bytes(*tokenizer, bytes)));
  };
  const std::string& r = kReplacement;
  EXPECT_EQ(text("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(text("\xF0\x80\x80\x41"), r + r + r + "A");
  EXPECT_EQ(text("\xE2\x80\x41"), r + "A");
  EXPECT_EQ(text("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Detokenizer, HoldsBackHalfACharacterUntilItIsWhole) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  EXPECT_THAT(pieces_of(Detokenizer(*tokenizer), fallback_bytes(*tokenizer, "\xF0\x9F\x98\x80!\xE2\x82")),
              ElementsAre("", "", "", "😀", "!", "", "", kReplacement));
}

TEST(Detokenizer, KeepsTheSpaceOfATokenInsideAText) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const std::vector<TokenId> ids = ids_of(*tokenizer, {"▁", "▁l", "▁a"});
  EXPECT_THAT(pieces_of(Detokenizer(*tokenizer), ids), ElementsAre(" ", " l", " a", ""));
  EXPECT_THAT(pieces_of(Detokenizer(*tokenizer, {.starts_text = true}), ids), ElementsAre("", " l", " a", ""));
  EXPECT_EQ(*tokenizer->decode(ids), " l a");
}

TEST(Detokenizer, TakesASpaceAwayOnlyIfThePromptShowsNothing) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const std::vector<TokenId> answer = ids_of(*tokenizer, {"▁a"});
  const std::vector<TokenId> only_bos = ids_of(*tokenizer, {"<s>"});
  const std::vector<TokenId> words = ids_of(*tokenizer, {"<s>", "▁a"});
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, only_bos), answer)), "a");
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, words), answer)), " a");
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, only_bos, {.skip_special_tokens = false}), answer)), " a");
}

TEST(Detokenizer, CompletesTheCharacterThatAPromptBegan) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const std::vector<TokenId> bytes = fallback_bytes(*tokenizer, "a\xE2\x82\xAC");
  const std::span<const TokenId> prompt = std::span(bytes).first(3);
  EXPECT_THAT(pieces_of(Detokenizer(*tokenizer, prompt), {bytes[3]}), ElementsAre("€", ""));
}

TEST(Detokenizer, KeepsEveryKindOfWhiteSpace) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const std::string code = "def f():\n    if x:\n\n        return 1\t \r\n   \n";
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer), *tokenizer->encode(code))), code);
}

TEST(Detokenizer, ShowsSpecialTokensOnlyWhenAsked) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const std::vector<TokenId> ids = ids_of(*tokenizer, {"a", "<|im_end|>", "<think>", "b"});
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer), ids)), "a<think>b");
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, {.skip_special_tokens = false}), ids)), "a<|im_end|><think>b");
  const std::vector<TokenId> shown = ids_of(*tokenizer, {"<|im_end|>"});
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, {.shown_special_tokens = shown}), ids)), "a<|im_end|><think>b");
  const std::vector<TokenId> other = ids_of(*tokenizer, {"<think>"});
  EXPECT_EQ(join(pieces_of(Detokenizer(*tokenizer, {.shown_special_tokens = other}), ids)), "a<think>b");
}

}  // namespace
}  // namespace redpoll::text
