#include "text/detokenizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace redpoll::text {
namespace {

// More tokens than an incomplete character has bytes.
constexpr std::size_t kTailTokens = 8;

bool is_visible(const Tokenizer& tokenizer, TokenId id, bool skip_special_tokens) {
  return !(skip_special_tokens && tokenizer.is_special(id)) && !tokenizer.token_view(id).empty();
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options)
    : tokenizer_(tokenizer),
      skip_special_tokens_(options.skip_special_tokens),
      strip_space_(options.starts_text && tokenizer.strips_leading_space()) {}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, DetokenizerOptions options)
    : Detokenizer(tokenizer, {.skip_special_tokens = options.skip_special_tokens, .starts_text = true}) {
  if (std::ranges::any_of(prompt, [&](TokenId id) { return is_visible(tokenizer, id, skip_special_tokens_); })) {
    strip_space_ = false;
  }
  for (const TokenId id : prompt.last(std::min(prompt.size(), kTailTokens))) (void)push(id);
}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  std::string_view bytes = tokenizer_.token_view(id);
  if (bytes.empty()) return {};
  if (strip_space_ && bytes.front() == ' ') bytes.remove_prefix(1);
  strip_space_ = false;

  pending_ += bytes;
  const std::size_t complete = complete_utf8_prefix(pending_);
  std::string piece = replace_invalid_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return piece;
}

std::string Detokenizer::flush() {
  std::string piece = replace_invalid_utf8(pending_);
  pending_.clear();
  return piece;
}

}  // namespace redpoll::text
