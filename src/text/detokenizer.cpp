#include "text/detokenizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace redpoll::text {
namespace {

// More tokens than an incomplete character has bytes.
constexpr std::size_t kTailTokens = 8;

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DetokenizerOptions options)
    : tokenizer_(tokenizer),
      skip_special_tokens_(options.skip_special_tokens),
      shown_special_tokens_(options.shown_special_tokens),
      strip_space_(options.starts_text && tokenizer.strips_leading_space()) {}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, DetokenizerOptions options)
    : Detokenizer(tokenizer, {.skip_special_tokens = options.skip_special_tokens,
                              .starts_text = true,
                              .shown_special_tokens = options.shown_special_tokens}) {
  const auto is_visible = [&](TokenId id) { return !is_hidden(id) && !tokenizer.token_view(id).empty(); };
  if (std::ranges::any_of(prompt, is_visible)) strip_space_ = false;
  for (const TokenId id : prompt.last(std::min(prompt.size(), kTailTokens))) (void)push(id);
}

std::string Detokenizer::push(TokenId id) {
  if (is_hidden(id)) return {};
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

bool Detokenizer::is_hidden(TokenId id) const {
  if (!skip_special_tokens_ || !tokenizer_.is_special(id)) return false;
  return std::ranges::find(shown_special_tokens_, id) == shown_special_tokens_.end();
}

std::string Detokenizer::flush() {
  std::string piece = replace_invalid_utf8(pending_);
  pending_.clear();
  return piece;
}

}  // namespace redpoll::text
