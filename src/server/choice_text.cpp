#include "server/choice_text.h"

#include <algorithm>
#include <utility>

#include "base/random_id.h"
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
      num_released_characters_(options.num_characters_before) {
  if (options.tool_calls) calls_.emplace(*options.tool_calls);
}

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
  const bool may_end = num_tokens_ >= options_.min_tokens;
  bool is_last = false;
  if (may_end) {
    is_last = append(text, delta) || (calls_ && calls_->finished());
  } else {
    release_text(text, delta);
  }
  if (is_last) {
    end(delta);
  } else {
    release_tokens(delta);
  }
  return is_last;
}

// True: a stop string is complete.
bool ChoiceText::append(std::string_view text, api::ChoiceDelta& delta) {
  const text::StopStringMatcher::Output output = stops_.push(text);
  release_text(output.text, delta);
  return output.matched.has_value();
}

void ChoiceText::finish(api::ChoiceDelta& delta) {
  const std::string text = detokenizer_.flush();
  decoded_bytes_ += text.size();
  if (!append(text, delta)) release_text(stops_.flush(), delta);
  end(delta);
}

// What is held back now would be for nothing any more, but for the text of a stop string.
void ChoiceText::end(api::ChoiceDelta& delta) {
  if (calls_) delta.text += calls_->flush();
  for (HeldToken& token : held_) {
    token.info.text_offset = std::min(token.info.text_offset, num_released_characters_);
    delta.tokens.push_back(std::move(token.info));
  }
  held_.clear();
}

void ChoiceText::release_text(std::string_view text, api::ChoiceDelta& delta) {
  released_bytes_ += text.size();
  num_released_characters_ += count_characters(text);
  if (!calls_) {
    delta.text += text;
    return;
  }
  text::ToolCallParser::Output output = calls_->push(text);
  delta.text += output.text;
  for (text::ToolCall& call : output.calls) {
    delta.tool_calls.push_back({.index = num_tool_calls_++,
                                .id = "call_" + random_hex(),
                                .name = std::move(call.name),
                                .arguments = std::move(call.arguments)});
  }
}

void ChoiceText::release_tokens(api::ChoiceDelta& delta) {
  while (!held_.empty() && held_.front().end <= released_bytes_) {
    delta.tokens.push_back(std::move(held_.front().info));
    held_.pop_front();
  }
}

}  // namespace redpoll::server
