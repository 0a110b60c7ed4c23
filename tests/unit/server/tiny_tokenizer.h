// A byte-level tokenizer small enough to read: token i is byte i for i < 256, then a special token that ends answers,
// one that begins texts, and any longer tokens that a test wants, which encoding never produces; then further special
// ones.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace redpoll::server {

inline constexpr TokenId kEndToken = 256;    // "<|end|>"
inline constexpr TokenId kStartToken = 257;  // "<|start|>"
inline constexpr TokenId kFirstExtraToken = 258;

/// The character by which byte-level vocabularies write a byte: itself if printable, else one from U+0100 on.
inline std::string byte_character(int byte) {
  const auto printable = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  int hidden_before = 0;
  for (int b = 0; b < byte; ++b) hidden_before += printable(b) ? 0 : 1;
  std::string out;
  append_utf8(out, static_cast<char32_t>(printable(byte) ? byte : 256 + hidden_before));
  return out;
}

inline std::shared_ptr<const text::Tokenizer> tiny_tokenizer(const std::vector<std::string>& extra_tokens = {},
                                                             const std::vector<std::string>& special_tokens = {}) {
  json::object vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_character(byte)] = byte;
  vocabulary["<|end|>"] = kEndToken;  // added tokens that the vocabulary lacks would get ids after all others
  vocabulary["<|start|>"] = kStartToken;
  for (std::size_t i = 0; i < extra_tokens.size(); ++i) {
    std::string name;
    for (const char c : extra_tokens[i]) name += byte_character(static_cast<unsigned char>(c));
    vocabulary[name] = kFirstExtraToken + static_cast<int>(i);
  }
  const auto special = [](TokenId id, const std::string& content) {
    return json::object{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                        {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  json::array added{special(kEndToken, "<|end|>"), special(kStartToken, "<|start|>")};
  for (const std::string& token : special_tokens) {
    const auto id = static_cast<TokenId>(vocabulary.size());
    vocabulary[token] = id;
    added.push_back(special(id, token));
  }
  const json::object byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const json::object file{{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level},
                          {"post_processor", nullptr},
                          {"decoder", byte_level},
                          {"model", json::object{{"type", "BPE"},
                                                 {"dropout", nullptr},
                                                 {"unk_token", nullptr},
                                                 {"continuing_subword_prefix", nullptr},
                                                 {"end_of_word_suffix", nullptr},
                                                 {"fuse_unk", false},
                                                 {"byte_fallback", false},
                                                 {"ignore_merges", false},
                                                 {"vocab", vocabulary},
                                                 {"merges", json::array{}}}}};
  auto tokenizer = text::Tokenizer::from_json(dump_json(file));
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

inline std::vector<TokenId> byte_tokens(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace redpoll::server
