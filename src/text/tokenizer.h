// Tokenizer: text to token ids and back, from the text of a Hugging Face tokenizer.json, with the same ids as Hugging
// Face's `tokenizers`. Special tokens written out in a text become their ids, as there; truncation and padding that
// the file may ask for are left out, because a prompt is never cut silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/token.h"

namespace redpoll::text {

struct EncodeOptions {
  /// Adds what the tokenizer itself puts around a text (often BOS). Off for rendered chat templates, which write their
  /// own special tokens.
  bool add_special_tokens = false;
};

/// Ids with where each begins: `begins[i]` characters of the text come before token i. A token that holds the rest of a
/// character begins where that character does; one without text of its own, where the next would.
struct LocatedIds {
  std::vector<TokenId> ids;
  std::vector<std::size_t> begins;
};

struct LocatedText {
  std::string text;
  std::vector<std::size_t> begins;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Immutable: any number of threads may use one. Ids run from 0 to vocab_size() - 1, possibly with holes.
class Tokenizer {
 public:
  /// Takes about half a second for 150,000 tokens. kCorruptFile: not a tokenizer; kUnsupported: it decodes in a way
  /// that no stream can follow (WordPiece, CTC).
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// kInvalidArgument if `text` is not valid UTF-8. About 2 MB/s.
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;

  /// As `encode`, somewhat slower.
  [[nodiscard]] Result<LocatedIds> encode_located(std::string_view text, EncodeOptions options = {}) const;

  /// So many tokens at least has `text`, found without tokenizing it, in a millisecond for a few megabytes. 0 when the
  /// tokenizer allows no bound.
  [[nodiscard]] std::size_t least_tokens(std::string_view text) const;

  /// The whole text of `ids` as valid UTF-8: exactly what a Detokenizer gives piece by piece. kInvalidArgument names
  /// an id that is not in the vocabulary.
  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  [[nodiscard]] Result<LocatedText> decode_located(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// One more than the largest id.
  [[nodiscard]] int vocab_size() const { return static_cast<int>(flags_.size()); }
  [[nodiscard]] bool contains(TokenId id) const { return (flags(id) & kKnown) != 0; }
  [[nodiscard]] bool is_special(TokenId id) const { return (flags(id) & kSpecial) != 0; }
  /// By the token's spelling in the file ("<|im_end|>", "Ġthe").
  [[nodiscard]] std::optional<TokenId> token_to_id(std::string_view token) const;

  /// The bytes that the token adds inside a text: half a character for some tokens, its name for a special one, empty
  /// for an id outside the vocabulary. Valid as long as the tokenizer.
  [[nodiscard]] std::string_view token_view(TokenId id) const;
  [[nodiscard]] std::string token_bytes(TokenId id) const { return std::string(token_view(id)); }
  /// token_bytes() as valid UTF-8, U+FFFD standing for what is not a character by itself.
  [[nodiscard]] std::string token_text(TokenId id) const;

  /// True if encoding puts a space before the first word, which decoding from the start of a text takes away.
  [[nodiscard]] bool strips_leading_space() const { return strips_leading_space_; }

 private:
  struct Native;
  static constexpr std::uint8_t kKnown = 1;
  static constexpr std::uint8_t kSpecial = 2;

  explicit Tokenizer(std::unique_ptr<Native> native);
  [[nodiscard]] Status load_table();
  [[nodiscard]] std::uint8_t flags(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < flags_.size() ? flags_[static_cast<std::size_t>(id)] : 0;
  }

  std::unique_ptr<Native> native_;
  // Token i is bytes_[offsets_[i], offsets_[i + 1]).
  std::string bytes_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::uint8_t> flags_;
  bool strips_leading_space_ = false;
  std::size_t max_bytes_per_token_ = 0;    // of the bytes that count; 0: no bound
  std::vector<std::uint8_t> known_bytes_;  // whether a byte counts
};

}  // namespace redpoll::text
