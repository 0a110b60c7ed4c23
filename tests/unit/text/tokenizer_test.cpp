#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/utf8.h"
#include "unit/text/golden.h"

namespace redpoll::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class EveryTokenizer : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ = golden_tokenizer(GetParam());
  const std::vector<TokenizerCase> cases_ = golden_cases(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Golden, EveryTokenizer, testing::Values("byte_level", "sentencepiece_bpe", "unigram"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryTokenizer, EncodesAsHuggingFaceDoes) {
  ASSERT_GE(cases_.size(), 60U);
  for (const TokenizerCase& golden : cases_) {
    EXPECT_EQ(*tokenizer_->encode(golden.text), golden.ids) << golden.text;
    EXPECT_EQ(*tokenizer_->encode(golden.text, {.add_special_tokens = true}), golden.ids_with_special) << golden.text;
  }
}

TEST_P(EveryTokenizer, DecodesAsHuggingFaceDoes) {
  for (const TokenizerCase& golden : cases_) {
    EXPECT_EQ(*tokenizer_->decode(golden.ids_with_special), golden.decoded) << golden.text;
    EXPECT_EQ(*tokenizer_->decode(golden.ids_with_special, {.skip_special_tokens = true}),
              golden.decoded_without_special)
        << golden.text;
  }
}

TEST_P(EveryTokenizer, ServesTwoThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong = 0;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        for (const TokenizerCase& golden : cases_) {
          if (*tokenizer_->encode(golden.text) != golden.ids) ++num_wrong;
          if (*tokenizer_->decode(golden.ids_with_special) != golden.decoded) ++num_wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

// The bound is what lets a text be refused unread, so it may never be more than the truth.
TEST_P(EveryTokenizer, NoTextHasFewerTokensThanTheBoundSays) {
  for (const TokenizerCase& golden : cases_) {
    EXPECT_LE(tokenizer_->least_tokens(golden.text), golden.ids.size()) << golden.text;
  }
  EXPECT_EQ(tokenizer_->least_tokens(""), 0U);
}

TEST_P(EveryTokenizer, LocatesTokensByCharactersOfTheText) {
  for (const TokenizerCase& golden : cases_) {
    const Result<LocatedIds> located = tokenizer_->encode_located(golden.text, {.add_special_tokens = true});
    ASSERT_TRUE(located) << golden.text;
    ASSERT_EQ(located->ids, golden.ids_with_special) << golden.text;
    ASSERT_EQ(located->begins.size(), located->ids.size());
    EXPECT_TRUE(std::ranges::is_sorted(located->begins)) << golden.text;
    if (!located->begins.empty()) {
      EXPECT_EQ(located->begins.front(), 0U);
      EXPECT_LE(located->begins.back(), count_characters(golden.text)) << golden.text;
    }
  }
}

TEST_P(EveryTokenizer, LocatesTokensByCharactersOfWhatTheyDecodeTo) {
  for (const TokenizerCase& golden : cases_) {
    const Result<LocatedText> located = tokenizer_->decode_located(golden.ids_with_special);
    ASSERT_TRUE(located);
    EXPECT_EQ(located->text, golden.decoded);
    EXPECT_EQ(located->begins.size(), golden.ids_with_special.size());
    EXPECT_TRUE(std::ranges::is_sorted(located->begins)) << golden.text;
  }
}

TEST_P(EveryTokenizer, RefusesIdsOutsideTheVocabulary) {
  const int size = tokenizer_->vocab_size();
  for (const TokenId id : {-1, size, 2147483647}) {
    const std::vector<TokenId> ids = {0, id};
    const Result<std::string> text = tokenizer_->decode(ids);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(text.error().message, "expected token ids of the vocabulary (0 to " + std::to_string(size - 1) +
                                        "), got " + std::to_string(id));
    EXPECT_FALSE(tokenizer_->contains(id));
    EXPECT_FALSE(tokenizer_->is_special(id));
    EXPECT_EQ(tokenizer_->token_bytes(id), "");
    EXPECT_EQ(tokenizer_->token_text(id), "");
  }
}

TEST_P(EveryTokenizer, RefusesTextThatIsNotUtf8) {
  for (const std::string_view text : {"ab\xff", "ab\xe2\x82", "ab\xed\xa0\x80", "ab\xc0\xaf"}) {
    const Result<std::vector<TokenId>> ids = tokenizer_->encode(text);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(ids.error().message, "the text is not valid UTF-8 at byte 2");
  }
}

TEST(Tokenizer, KnowsSpecialTokensFromOthers) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const TokenId end = tokenizer->token_to_id("<|im_end|>").value();
  const TokenId think = tokenizer->token_to_id("<think>").value();
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_FALSE(tokenizer->is_special(think));
  EXPECT_EQ(tokenizer->token_text(end), "<|im_end|>");
  EXPECT_EQ(tokenizer->token_to_id("<|no such token|>"), std::nullopt);
  EXPECT_EQ(tokenizer->token_to_id("\xff"), std::nullopt);
}

// Added tokens are one id each, special or not, and what only looks like one is ordinary text.
TEST(Tokenizer, FindsAddedTokensWrittenInText) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const auto id = [&](std::string_view token) { return tokenizer->token_to_id(token).value(); };
  EXPECT_THAT(*tokenizer->encode("<think></think><|im_end|>"),
              ElementsAre(id("<think>"), id("</think>"), id("<|im_end|>")));
  EXPECT_GT(tokenizer->encode("<|im_end >")->size(), 4U);
}

TEST(Tokenizer, TellsTheBytesOfATokenOfEachKind) {
  const auto byte_level = golden_tokenizer("byte_level");
  EXPECT_EQ(byte_level->token_bytes(byte_level->token_to_id("Ġ").value()), " ");
  EXPECT_EQ(byte_level->token_bytes(byte_level->token_to_id("ð").value()), "\xf0");
  EXPECT_EQ(byte_level->token_text(byte_level->token_to_id("ð").value()), "\xEF\xBF\xBD");
  const auto sentencepiece = golden_tokenizer("sentencepiece_bpe");
  EXPECT_EQ(sentencepiece->token_bytes(sentencepiece->token_to_id("<0xE2>").value()), "\xe2");
  EXPECT_EQ(sentencepiece->token_bytes(sentencepiece->token_to_id("▁").value()), " ");
  EXPECT_TRUE(sentencepiece->strips_leading_space());
  EXPECT_FALSE(byte_level->strips_leading_space());
}

// The bytes of the tokens of a text are the text: what logprobs show adds up.
TEST(Tokenizer, TokenBytesAddUpToTheText) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  for (const TokenizerCase& golden : golden_cases("sentencepiece_bpe")) {
    std::string bytes;
    for (const TokenId id : golden.ids_with_special) bytes += tokenizer->token_bytes(id);
    EXPECT_EQ(bytes, golden.decoded);
  }
}

TEST(Tokenizer, BoundsTheTokensOfALongText) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const std::size_t least = tokenizer->least_tokens(std::string(std::size_t{10} << 20U, 'x'));
  EXPECT_GT(least, 50'000U);
  EXPECT_LE(tokenizer->least_tokens("abc"), 3U);
}

TEST(Tokenizer, LocatesHalvesOfACharacterWhereItBegins) {
  const auto tokenizer = golden_tokenizer("byte_level");
  const auto located = tokenizer->encode_located("é🙂 é");
  ASSERT_TRUE(located);
  std::string text;
  for (std::size_t i = 0; i < located->ids.size(); ++i) {
    // Characters that begin before token i, but not one that it only goes on with.
    const std::string before = text;
    text += tokenizer->token_bytes(located->ids[i]);
    const std::size_t whole = complete_utf8_prefix(before);
    EXPECT_EQ(located->begins[i], count_characters(std::string_view(before).substr(0, whole))) << i;
  }
  EXPECT_EQ(text, "é🙂 é");
}

// BOS is no text, and the space that is put before the first word is none either.
TEST(Tokenizer, LocatesWhatIsNotInTheTextWhereTheTextGoesOn) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const auto located = tokenizer->encode_located("ab ab", {.add_special_tokens = true});
  ASSERT_TRUE(located);
  ASSERT_TRUE(tokenizer->is_special(located->ids.front()));
  EXPECT_EQ(located->begins[0], 0U);
  EXPECT_EQ(located->begins[1], 0U);
}

TEST(Tokenizer, RefusesFilesThatAreNoTokenizers) {
  for (const std::string_view text : {"", "{", "[]", "null", "{}", R"({"model": {"type": "Magic"}})", "\xff\xfe"}) {
    const auto tokenizer = Tokenizer::from_json(text);
    ASSERT_FALSE(tokenizer) << text;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorruptFile) << text;
    EXPECT_THAT(tokenizer.error().message, StartsWith("tokenizer.json: "));
  }
}

TEST(Tokenizer, RefusesADecoderThatNoStreamCanFollow) {
  json::value file = read_golden_json("tokenizers/byte_level.json");
  file.as_object()["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const auto tokenizer = Tokenizer::from_json(dump_json(file));
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(tokenizer.error().message, "tokenizer.json: a tokenizer whose decoder is WordPiece is not supported");
}

TEST(Tokenizer, RefusesAnIdThatWouldOnlyExhaustMemory) {
  json::value file = read_golden_json("tokenizers/byte_level.json");
  file.at("model").at("vocab").as_object()["zzz"] = 4000000000U;
  const auto tokenizer = Tokenizer::from_json(dump_json(file));
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorruptFile);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("the largest token id is 4000000000, but there are only"));
}

TEST(Tokenizer, LeavesOutTruncationAndPaddingOfTheFile) {
  json::value file = read_golden_json("tokenizers/byte_level.json");
  file.as_object()["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const auto tokenizer = Tokenizer::from_json(dump_json(file));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const TokenizerCase golden = golden_cases("byte_level")[6];
  EXPECT_EQ(*(*tokenizer)->encode(golden.text), golden.ids);
}

// Long runs without a space are where a byte-pair encoder can turn quadratic.
TEST(Tokenizer, EncodesALongWordInReasonableTime) {
  const auto tokenizer = golden_tokenizer("sentencepiece_bpe");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(tokenizer->encode(std::string(1 << 20, 'a'))->size(), 1000U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace redpoll::text
