// Detokenizer: the text of one growing token sequence, piece by piece. Each piece ends at a character's end; bytes
// that may still become a character are held back. Whatever the cuts, all pieces and the flush together equal
// Tokenizer::decode of the same tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/token.h"
#include "text/tokenizer.h"

namespace redpoll::text {

struct DetokenizerOptions {
  bool skip_special_tokens = true;
  /// The first token begins a text, so a space that encoding put before it is taken away (at most one, and only if
  /// the tokenizer does that). False: the tokens continue a text, whose spaces all count.
  bool starts_text = false;
  /// Special tokens that are text all the same. Must stay valid as long as the Detokenizer.
  std::span<const TokenId> shown_special_tokens = {};
};

/// Belongs to one sequence and one thread at a time; `tokenizer` must outlive it. Constant time per token, without
/// allocation beyond the piece itself.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options = {});
  /// Continues `prompt`: its text does not come out again, half a character at its end is completed by what follows,
  /// and a leading space is taken away only if the prompt has no visible text (options.starts_text is not looked at).
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, DetokenizerOptions options = {});

  /// Text that this token completes; often empty. An id outside the vocabulary adds nothing.
  [[nodiscard]] std::string push(TokenId id);
  /// At the end: what was held back, one U+FFFD for each maximal subpart of a character.
  [[nodiscard]] std::string flush();

 private:
  [[nodiscard]] bool is_hidden(TokenId id) const;

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  std::span<const TokenId> shown_special_tokens_;
  bool strip_space_;     // the next byte of text, if a space, is not shown
  std::string pending_;  // an incomplete character: at most 3 bytes
};

}  // namespace redpoll::text
