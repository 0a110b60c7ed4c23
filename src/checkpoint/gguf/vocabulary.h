// The vocabulary in a GGUF file's metadata, checked. Internal to checkpoint/.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "checkpoint/gguf/file.h"

namespace redpoll::checkpoint {

/// The container's codes.
enum class GgufTokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // special: its text in a prompt stands for it only where special tokens are parsed
  kUserDefined = 4,  // never split, but ordinary text
  kUnused = 5,
  kByte = 6,  // "<0x0A>"
};

/// Texts are views of the file's bytes; all are valid UTF-8 and different.
struct GgufVocabulary {
  std::vector<std::string_view> tokens;
  std::vector<GgufTokenType> types;  // as many as tokens
  std::vector<float> scores;         // as many as tokens, or none; never NaN
  boost::unordered_flat_map<std::string_view, TokenId, std::hash<std::string_view>> ids;

  std::optional<TokenId> bos, eos, unk, pad;
  std::vector<TokenId> end_ids;  // eos, end of turn, end of message
  std::optional<bool> add_bos, add_eos, add_space_prefix;

  [[nodiscard]] GgufTokenType type_of(TokenId id) const { return types[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::string_view text_of(TokenId id) const { return tokens[static_cast<std::size_t>(id)]; }
};

/// kCorruptFile, naming the key, for arrays of different lengths, texts that are twice or not UTF-8, ids out of range.
[[nodiscard]] Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file);

}  // namespace redpoll::checkpoint
