// What the tests of text/ read from tests/golden/text. Failing to read is a failed test with the reason.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/value_to.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace redpoll::text {

inline std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "text" / name;
}

inline std::string read_golden(const std::string& name) {
  Result<std::string> text = read_file(golden_path(name));
  if (!text) throw std::runtime_error(text.error().message);
  return *std::move(text);
}

inline json::value read_golden_json(const std::string& name) {
  Result<json::value> value = parse_json(read_golden(name));
  if (!value) throw std::runtime_error(name + ": " + value.error().message);
  return *std::move(value);
}

/// One of "byte_level", "sentencepiece_bpe", "unigram".
inline std::shared_ptr<const Tokenizer> golden_tokenizer(const std::string& name) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer =
      Tokenizer::from_json(read_golden("tokenizers/" + name + ".json"));
  if (!tokenizer) throw std::runtime_error(name + ": " + tokenizer.error().message);
  return *std::move(tokenizer);
}

/// A text with what Hugging Face's `tokenizers` makes of it.
struct TokenizerCase {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<TokenId> ids_with_special;
  std::string decoded;                  // of ids_with_special
  std::string decoded_without_special;  // likewise
};

inline std::vector<TokenizerCase> golden_cases(const std::string& name) {
  const auto ids = [](const json::value& list) { return json::value_to<std::vector<TokenId>>(list); };
  const auto text = [](const json::value& value) { return json::value_to<std::string>(value); };
  std::vector<TokenizerCase> cases;
  const json::value golden = read_golden_json(name + "_ids.json");
  for (const json::value& one : golden.at("cases").as_array()) {
    cases.push_back({.text = text(one.at("text")),
                     .ids = ids(one.at("ids")),
                     .ids_with_special = ids(one.at("ids_with_special")),
                     .decoded = text(one.at("decoded")),
                     .decoded_without_special = text(one.at("decoded_without_special"))});
  }
  return cases;
}

}  // namespace redpoll::text
