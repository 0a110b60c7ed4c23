#include "checkpoint/gguf/pre_tokenizer.h"

#include <algorithm>
#include <array>

namespace redpoll::checkpoint {
namespace {

// GPT-2's expression is built into ByteLevel with use_regex.
constexpr std::string_view kGpt2 =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";

constexpr std::string_view kDigitsThenGpt2 =
    R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})";

// One Split by expression, then bytes to letters without another split.
#define REDPOLL_SPLIT(expression) \
  R"({"type":"Split","pattern":{"Regex":")" expression R"("},"behavior":"Isolated","invert":false},)"
#define REDPOLL_SPLITS(splits)                     \
  R"({"type":"Sequence","pretokenizers":[)" splits \
  R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})"

// Expressions below stand in JSON strings: each backslash is doubled.
constexpr std::string_view kLlama3 = REDPOLL_SPLITS(REDPOLL_SPLIT(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
    R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"));

constexpr std::string_view kQwen2 = REDPOLL_SPLITS(
    REDPOLL_SPLIT(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|)"
                  R"(\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"));

constexpr std::string_view kQwen35 =
    REDPOLL_SPLITS(REDPOLL_SPLIT(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|)"
                                 R"( ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"));

constexpr std::string_view kTekken = REDPOLL_SPLITS(
    REDPOLL_SPLIT(R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|)"
                  R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|)"
                  R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"));

constexpr std::string_view kGpt4o = REDPOLL_SPLITS(REDPOLL_SPLIT(
    R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"));

// What llama.cpp does for files whose converter did not recognise the vocabulary, and so what their authors tested.
constexpr std::string_view kDefault =
    REDPOLL_SPLITS(REDPOLL_SPLIT(R"([\\p{P}\\$\\+<=>\\^~\\|]+)")
                       REDPOLL_SPLIT(R"('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S))")
                           REDPOLL_SPLIT(R"(\\p{N}+)") REDPOLL_SPLIT(R"([0-9][0-9][0-9])"));

#undef REDPOLL_SPLIT
#undef REDPOLL_SPLITS

constexpr std::string_view kNone = "null";
constexpr std::string_view kNfc = R"({"type":"NFC"})";

constexpr std::array<PreTokenizer, 17> kPreTokenizers = {{
    {"smollm", kNone, kDigitsThenGpt2},
    {"starcoder", kNone, kDigitsThenGpt2},
    {"refact", kNone, kDigitsThenGpt2},
    {"codeshell", kNone, kDigitsThenGpt2},
    {"gpt-2", kNone, kGpt2},
    {"phi-2", kNone, kGpt2},
    {"llama-bpe", kNone, kLlama3, true, true},
    {"llama3", kNone, kLlama3, true, true},
    {"llama-v3", kNone, kLlama3, true, true},
    {"smaug-bpe", kNone, kLlama3},
    {"dbrx", kNone, kLlama3},
    {"qwen2", kNfc, kQwen2},
    {"deepseek-r1-qwen", kNfc, kQwen2},
    {"qwen35", kNfc, kQwen35},
    {"tekken", kNone, kTekken, true, true},
    {"gpt-4o", kNone, kGpt4o},
    {"default", kNone, kDefault},
}};

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return found == kPreTokenizers.end() ? nullptr : &*found;
}

std::string known_pre_tokenizers() {
  std::string text;
  for (const PreTokenizer& row : kPreTokenizers) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace redpoll::checkpoint
