#include "checkpoint/gguf/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/utf8.h"

namespace redpoll::checkpoint {
namespace {

constexpr std::uint64_t kMaxTokens = 1 << 24;

std::unexpected<Error> broken(const GgufFile& file, std::string_view key, const std::string& what) {
  return fail(ErrorCode::kCorruptFile, file.name() + ": metadata '" + std::string(key) + "' " + what, std::string(key));
}

Status read_tokens(const GgufFile& file, GgufVocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  ASSIGN_OR_RETURN(const GgufArray* array, file.array(kKey));
  if (array == nullptr) return broken(file, kKey, "is missing");
  if (!array->is_text() || array->count == 0 || array->count > kMaxTokens) {
    return broken(file, kKey, "must be an array of 1 to " + std::to_string(kMaxTokens) + " strings");
  }
  vocabulary.tokens = array->texts;
  vocabulary.ids.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view token = vocabulary.tokens[i];
    if (!is_valid_utf8(token)) return broken(file, kKey, "has a text that is not UTF-8 at " + std::to_string(i));
    const auto [at, is_new] = vocabulary.ids.emplace(token, static_cast<TokenId>(i));
    if (!is_new) {
      return broken(file, kKey, "has the same text at " + std::to_string(at->second) + " and " + std::to_string(i));
    }
  }
  return {};
}

// An array of as many numbers as there are tokens, or nullptr.
Result<const GgufArray*> numbers_by_token(const GgufFile& file, std::string_view key, std::size_t count) {
  ASSIGN_OR_RETURN(const GgufArray* array, file.array(key));
  if (array == nullptr) return nullptr;
  if (!array->is_number() || array->count != count) {
    return broken(file, key, "must be an array of " + std::to_string(count) + " numbers, one for each token");
  }
  return array;
}

Status read_types_and_scores(const GgufFile& file, GgufVocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  ASSIGN_OR_RETURN(const GgufArray* types, numbers_by_token(file, "tokenizer.ggml.token_type", count));
  vocabulary.types.assign(count, GgufTokenType::kNormal);
  for (std::size_t i = 0; types != nullptr && i < count; ++i) {
    const double code = types->number(i);
    // 0 stands for "undefined" in files of some converters.
    if (!(code >= 0 && code <= 6)) return broken(file, "tokenizer.ggml.token_type", "has an unknown type");
    if (code >= 1) vocabulary.types[i] = static_cast<GgufTokenType>(static_cast<int>(code));
  }
  ASSIGN_OR_RETURN(const GgufArray* scores, numbers_by_token(file, "tokenizer.ggml.scores", count));
  if (scores == nullptr) return {};
  vocabulary.scores.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto score = static_cast<float>(scores->number(i));
    if (std::isnan(score)) return broken(file, "tokenizer.ggml.scores", "has a score that is not a number");
    vocabulary.scores.push_back(score);
  }
  return {};
}

Status read_roles(const GgufFile& file, GgufVocabulary& vocabulary) {
  const auto last = static_cast<std::int64_t>(vocabulary.tokens.size()) - 1;
  const auto read_id = [&](std::string_view role) -> Result<std::optional<TokenId>> {
    const std::string key = "tokenizer.ggml." + std::string(role) + "_token_id";
    // Converters write 2^32 - 1 for "none".
    const GgufValue* value = file.find(key);
    const auto* number = value == nullptr ? nullptr : std::get_if<std::uint64_t>(value);
    if (number != nullptr && *number == 0xFFFFFFFFU) return std::nullopt;
    ASSIGN_OR_RETURN(const auto id, file.integer(key, 0, last));
    if (!id) return std::nullopt;
    return static_cast<TokenId>(*id);
  };
  ASSIGN_OR_RETURN(vocabulary.bos, read_id("bos"));
  ASSIGN_OR_RETURN(vocabulary.eos, read_id("eos"));
  ASSIGN_OR_RETURN(vocabulary.unk, read_id("unknown"));
  ASSIGN_OR_RETURN(vocabulary.pad, read_id("padding"));
  for (const std::string_view role : {"eos", "eot", "eom"}) {
    ASSIGN_OR_RETURN(const auto id, read_id(role));
    if (id) vocabulary.end_ids.push_back(*id);
  }
  ASSIGN_OR_RETURN(vocabulary.add_bos, file.boolean("tokenizer.ggml.add_bos_token"));
  ASSIGN_OR_RETURN(vocabulary.add_eos, file.boolean("tokenizer.ggml.add_eos_token"));
  ASSIGN_OR_RETURN(vocabulary.add_space_prefix, file.boolean("tokenizer.ggml.add_space_prefix"));
  return {};
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  RETURN_IF_ERROR(read_tokens(file, vocabulary));
  RETURN_IF_ERROR(read_types_and_scores(file, vocabulary));
  RETURN_IF_ERROR(read_roles(file, vocabulary));
  return vocabulary;
}

}  // namespace redpoll::checkpoint
