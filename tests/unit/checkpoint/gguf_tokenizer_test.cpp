#include "checkpoint/gguf/tokenizer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using testing::GgufBuilder;
using testing::parse_gguf;
using testing::raw;

GgufBuilder byte_level(std::string_view pre = "qwen2") {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", pre)
      .strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "<think>", "</s>", "\"\\\n"})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {1, 1, 1, 3, 4, 3, 4})
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.bos_token_id", 3)
      .u32("tokenizer.ggml.eos_token_id", 5);
  return builder;
}

Result<GgufTokenizer> read(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  ASSIGN_OR_RETURN(const GgufFile file, parse_gguf(bytes));
  return read_gguf_tokenizer(file);
}

std::string message(const GgufBuilder& builder) {
  const auto tokenizer = read(builder);
  return tokenizer ? "" : tokenizer.error().message;
}

json::value read_json(const GgufBuilder& builder) {
  const auto tokenizer = read(builder);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  const auto parsed = parse_json(tokenizer->json);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

TEST(GgufTokenizerTest, AByteLevelVocabularyBecomesTokenizerJson) {
  const json::value value = read_json(byte_level());
  EXPECT_EQ(value.at("model"), *parse_json(R"({"type":"BPE","dropout":null,"unk_token":null,
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
      "ignore_merges":false,
      "vocab":{"a":0,"b":1,"ab":2,"<s>":3,"<think>":4,"</s>":5,"\"\\\n":6},"merges":[["a","b"]]})"));
  EXPECT_EQ(value.at("normalizer"), *parse_json(R"({"type":"NFC"})"));
  EXPECT_EQ(value.at("pre_tokenizer"), *parse_json(R"({"type":"Sequence","pretokenizers":[{"type":"Split",
      "pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      "behavior":"Isolated","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})"));
  EXPECT_EQ(value.at("post_processor"), json::value(nullptr));
}

TEST(GgufTokenizerTest, ControlTokensAreSpecialAndUserDefinedOnesAreWholeButOrdinary) {  // user case 17
  const json::value value = read_json(byte_level());
  const auto added = [](int id, std::string_view content, bool special) {
    return json::value{{"id", id},
                       {"content", json::string(content)},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}};
  };
  EXPECT_EQ(value.at("added_tokens"), (json::array{added(3, "<s>", true), added(4, "<think>", false),
                                                   added(5, "</s>", true), added(6, "\"\\\n", false)}));
}

TEST(GgufTokenizerTest, BosIsAddedOnceIfTheFileAsksForIt) {
  const auto without = read(byte_level());
  EXPECT_FALSE(without->info.add_bos_token);
  const auto tokenizer = read(byte_level().boolean("tokenizer.ggml.add_bos_token", true));
  ASSERT_TRUE(tokenizer);
  EXPECT_TRUE(tokenizer->info.add_bos_token);
  EXPECT_FALSE(tokenizer->info.add_eos_token);
  EXPECT_EQ(tokenizer->info.bos->text, "<s>");
  EXPECT_EQ(tokenizer->info.bos->id, 3);
  EXPECT_EQ(parse_json(tokenizer->json)->at("post_processor"), *parse_json(R"({"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
      "pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
              {"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],
      "special_tokens":{"<s>":{"id":"<s>","ids":[3],"tokens":["<s>"]}}})"));
  const json::value both = read_json(
      byte_level().boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(both.at("post_processor").at("single"),
            *parse_json(R"([{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                            {"SpecialToken":{"id":"</s>","type_id":0}}])"));
}

TEST(GgufTokenizerTest, LlamaVocabulariesAddBosUnlessToldNotTo) {
  EXPECT_TRUE(read(byte_level("llama-bpe"))->info.add_bos_token);
  EXPECT_FALSE(read(byte_level("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false))->info.add_bos_token);
  EXPECT_EQ(read_json(byte_level("llama-bpe")).at("model").at("ignore_merges"), json::value(true));
}

TEST(GgufTokenizerTest, EveryEndOfTurnEndsAGeneration) {  // user case 7
  const auto ids = [](const GgufBuilder& builder) { return read(builder)->info.eos_ids; };
  EXPECT_EQ(ids(byte_level()), std::vector<TokenId>{5});
  EXPECT_EQ(ids(byte_level().u32("tokenizer.ggml.eot_token_id", 4).u32("tokenizer.ggml.eom_token_id", 0)),
            (std::vector<TokenId>{5, 4, 0}));
  const auto chat = [](std::int32_t type) {
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2")
        .strings("tokenizer.ggml.tokens", {"a", "<|im_end|>", "</s>"})
        .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {1, type, 3})
        .strings("tokenizer.ggml.merges", {})
        .u32("tokenizer.ggml.eos_token_id", 2)
        .string("tokenizer.chat_template", "{{ message }}<|im_end|><|eot_id|>");
    return builder;
  };
  EXPECT_EQ(ids(chat(3)), (std::vector<TokenId>{2, 1}));
  EXPECT_EQ(ids(chat(1)), (std::vector<TokenId>{2}));  // ordinary text that looks like it
}

TEST(GgufTokenizerTest, WhatIsNotUnderstoodIsRefusedByName) {
  EXPECT_EQ(message(GgufBuilder()), "m.gguf: metadata 'tokenizer.ggml.model' is missing");
  EXPECT_EQ(message(GgufBuilder().string("tokenizer.ggml.model", "t5")),
            "m.gguf: the tokenizer model 't5' is not supported; known are gpt2 and llama");
  EXPECT_EQ(message(byte_level("klingon")),
            "m.gguf: the pre-tokenizer 'klingon' is not supported; known are smollm, starcoder, refact, codeshell, "
            "gpt-2, phi-2, llama-bpe, llama3, llama-v3, smaug-bpe, dbrx, qwen2, deepseek-r1-qwen, qwen35, tekken, "
            "gpt-4o, default");
}

TEST(GgufTokenizerTest, BrokenVocabulariesNameTheKey) {
  const auto with_tokens = [](const std::vector<std::string>& tokens) {
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", tokens);
    return builder;
  };
  EXPECT_EQ(message(GgufBuilder().string("tokenizer.ggml.model", "gpt2")),
            "m.gguf: metadata 'tokenizer.ggml.tokens' is missing");
  EXPECT_EQ(message(with_tokens({})),
            "m.gguf: metadata 'tokenizer.ggml.tokens' must be an array of 1 to 16777216 strings");
  EXPECT_EQ(message(with_tokens({"a", "\xFF"})),
            "m.gguf: metadata 'tokenizer.ggml.tokens' has a text that is not UTF-8 at 1");
  EXPECT_EQ(message(with_tokens({"a", "b", "a"})),
            "m.gguf: metadata 'tokenizer.ggml.tokens' has the same text at 0 and 2");
  EXPECT_EQ(message(with_tokens({"a", "b"}).numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {1})),
            "m.gguf: metadata 'tokenizer.ggml.token_type' must be an array of 2 numbers, one for each token");
  EXPECT_EQ(message(with_tokens({"a"}).numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {9})),
            "m.gguf: metadata 'tokenizer.ggml.token_type' has an unknown type");
  EXPECT_EQ(message(with_tokens({"a"}).numbers<float>("tokenizer.ggml.scores", GgufBuilder::kF32, {NAN})),
            "m.gguf: metadata 'tokenizer.ggml.scores' has a score that is not a number");
  EXPECT_EQ(message(with_tokens({"a"}).u32("tokenizer.ggml.eos_token_id", 1)),
            "m.gguf: metadata 'tokenizer.ggml.eos_token_id': expected a whole number from 0 to 0, got 1");
  EXPECT_EQ(message(with_tokens({"a"}).u32("tokenizer.ggml.padding_token_id", 0xFFFFFFFF)),
            "m.gguf: metadata 'tokenizer.ggml.merges' is missing");  // 2^32 - 1 is "none"
  for (const char* merge : {"a c", "a", "", "a b c", "b a"}) {
    EXPECT_EQ(message(with_tokens({"a", "b", "ab"}).strings("tokenizer.ggml.merges", {"a b", merge})),
              "m.gguf: metadata 'tokenizer.ggml.merges' at 1 joins texts that are not tokens")
        << merge;
  }
  EXPECT_EQ(
      message(with_tokens({"a"}).strings("tokenizer.ggml.merges", {}).boolean("tokenizer.ggml.add_bos_token", true)),
      "m.gguf: metadata 'tokenizer.ggml.add_bos_token' is set, but there is no 'tokenizer.ggml.bos_token_id'");
}

TEST(SentencePieceTest, MergesEqualTheConvertersOfTheTransformersLibrary) {
  const std::filesystem::path goldens = std::filesystem::path(REDPOLL_TEST_DATA) / "golden/checkpoint";
  const auto mapped = MappedFile::open(goldens / "sentencepiece.gguf");
  ASSERT_TRUE(mapped);
  const auto file = GgufFile::parse((*mapped)->bytes(), *mapped, "m.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const auto tokenizer = read_gguf_tokenizer(*file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const json::value value = *parse_json(tokenizer->json);
  const auto expected = parse_json(*read_file(goldens / "sentencepiece_merges.json"));
  ASSERT_GT(expected->as_array().size(), 50U);
  EXPECT_EQ(value.at("model").at("merges"), *expected);
  EXPECT_EQ(value.at("model").at("unk_token"), json::value("<unk>"));
  EXPECT_EQ(value.at("model").at("byte_fallback"), json::value(true));
  EXPECT_TRUE(tokenizer->info.add_bos_token);
  EXPECT_EQ(tokenizer->info.eos_ids, std::vector<TokenId>{2});
}

GgufBuilder sentencepiece() {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "a", "b", "ab", "<0x0A>"})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {2, 3, 1, 1, 1, 6})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.unknown_token_id", 0);
  return builder;
}

TEST(SentencePieceTest, ThePrefixSpaceIsAddedAndStrippedOnlyIfAskedFor) {
  const std::vector<float> scores = {0, 0, -2, -3, -1, 0};
  GgufBuilder builder = sentencepiece().numbers<float>("tokenizer.ggml.scores", GgufBuilder::kF32, scores);
  const json::value with = read_json(builder);
  EXPECT_EQ(with.at("normalizer"), *parse_json(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
      {"type":"Replace","pattern":{"String":" "},"content":"▁"}]})"));
  EXPECT_EQ(with.at("decoder").at("decoders").as_array().size(), 4U);
  const json::value without = read_json(builder.boolean("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(without.at("normalizer"), *parse_json(R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})"));
  EXPECT_EQ(without.at("decoder").at("decoders").as_array().size(), 3U);
  EXPECT_EQ(without.at("model").at("merges"), *parse_json(R"([["a","b"]])"));
}

// Gemma's: the file has runs of spaces as such, and a text may have U+2581 in their place.
TEST(SentencePieceTest, RunsOfSpacesAreFoundAfterTheNormalizer) {
  const auto read_with = [](bool has_prefix) {
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", {"<unk>", "  ", "<a b>"})
        .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {2, 4, 4})
        .numbers<float>("tokenizer.ggml.scores", GgufBuilder::kF32, {0, 0, 0})
        .u32("tokenizer.ggml.unknown_token_id", 0)
        .boolean("tokenizer.ggml.add_bos_token", false)
        .boolean("tokenizer.ggml.add_space_prefix", has_prefix);
    return read_json(builder);
  };
  const json::value marked = read_with(false);
  const json::array& tokens = marked.at("added_tokens").as_array();
  EXPECT_EQ(tokens[1].at("content"), json::value("▁▁"));
  EXPECT_EQ(tokens[1].at("normalized"), json::value(true));
  EXPECT_EQ(tokens[2].at("content"), json::value("<a b>"));
  EXPECT_EQ(tokens[2].at("normalized"), json::value(false));
  EXPECT_EQ(marked.at("model").at("vocab").at("▁▁"), json::value(1));
  const json::value whole = read_with(true);  // the normalizer would put a space before each
  EXPECT_EQ(whole.at("added_tokens").at(1).at("content"), json::value("  "));
  EXPECT_EQ(whole.at("added_tokens").at(1).at("normalized"), json::value(false));
}

TEST(SentencePieceTest, ScoresMustBeThere) {
  EXPECT_EQ(message(sentencepiece()), "m.gguf: metadata 'tokenizer.ggml.scores' is missing");
}

}  // namespace
}  // namespace redpoll::checkpoint
