#include "server/choice_text.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace redpoll::server {

api::TokenInfo token_info(const text::Tokenizer& tokenizer, TokenId id, std::optional<float> logprob,
                          const std::vector<engine::TokenLogprob>& top) {
  api::TokenInfo info{.id = id, .bytes = tokenizer.token_bytes(id), .logprob = logprob, .top = {}};
  info.top.reserve(top.size());
  for (const auto& [other, other_logprob] : top) {
    info.top.push_back({.id = other, .bytes = tokenizer.token_bytes(other), .logprob = other_logprob});
  }
  return info;
}

ChoiceText::ChoiceText(const text::Tokenizer& tokenizer, text::Detokenizer detokenizer,
                       const ChoiceTextOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      detokenizer_(std::move(detokenizer)),
      stops_(options.stop),
      num_characters_(options.num_characters_before),
      num_released_characters_(options.num_characters_before) {}

bool ChoiceText::push(const engine::TokenEvent& token, api::ChoiceDelta& delta) {
  ++num_tokens_;
  const std::string text = detokenizer_.push(token.id);
  decoded_bytes_ += text.size();
  if (options_.with_tokens) {
    const auto logprob = options_.with_logprobs ? std::optional(token.logprob) : std::nullopt;
    held_.push_back({token_info(tokenizer_, token.id, logprob, token.top), decoded_bytes_});
    held_.back().info.text_offset = num_characters_;
  }
  num_characters_ += count_characters(text);
  if (num_tokens_ < options_.min_tokens) {
    release_text(text, delta);
  } else if (append(text, delta)) {
    return true;
  }
  release_tokens(delta);
  return false;
}

// True: a stop string is complete.
bool ChoiceText::append(std::string_view text, api::ChoiceDelta& delta) {
  const text::StopStringMatcher::Output output = stops_.push(text);
  release_text(output.text, delta);
  if (!output.matched) return false;
  for (HeldToken& token : held_) {
    token.info.text_offset = std::min(token.info.text_offset, num_released_characters_);  // its text never comes out
    delta.tokens.push_back(std::move(token.info));
  }
  held_.clear();
  return true;
}

void ChoiceText::finish(api::ChoiceDelta& delta) {
  const std::string text = detokenizer_.flush();
  decoded_bytes_ += text.size();
  if (append(text, delta)) return;
  release_text(stops_.flush(), delta);
  release_tokens(delta);
}

void ChoiceText::release_text(std::string_view text, api::ChoiceDelta& delta) {
  delta.text += text;
  released_bytes_ += text.size();
  num_released_characters_ += count_characters(text);
}

void ChoiceText::release_tokens(api::ChoiceDelta& delta) {
  while (!held_.empty() && held_.front().end <= released_bytes_) {
    delta.tokens.push_back(std::move(held_.front().info));
    held_.pop_front();
  }
}

}  // namespace redpoll::server
