// ChoiceText: from the token ids of one choice to the text, tool calls and tokens that a client may see. Holds back
// what may still become part of a character, of a stop string or of a call. Deterministic: the same tokens give the
// same deltas, but for the ids of calls. Stop strings are looked for first, so one inside of a call ends the answer
// there.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "api/generation.h"
#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"
#include "text/tool_calls/parser.h"

namespace redpoll::server {

struct ChoiceTextOptions {
  std::vector<std::string> stop = {};
  int min_tokens = 0;        // stop strings are not looked for before so many tokens
  bool with_tokens = false;  // deltas carry TokenInfo
  bool with_logprobs = false;
  std::optional<text::ToolCallOptions> tool_calls = {};  // absent: all is text
  std::size_t num_characters_before = 0;  // that the client sees before this choice's own: the echoed prompt
};

/// `tokenizer` must outlive it.
class ChoiceText {
 public:
  ChoiceText(const text::Tokenizer& tokenizer, text::Detokenizer detokenizer, const ChoiceTextOptions& options);

  /// Appends to `delta` what this token sets free. True: a stop string is complete, or the last call that is wanted and
  /// min_tokens have come; nothing may follow. The text of a stop string never comes out. The tokens do, up to the one
  /// that completed it, as from vLLM: they are what was generated, so they are as many as num_tokens, which usage
  /// reports and OpenAI bills.
  [[nodiscard]] bool push(const engine::TokenEvent& token, api::ChoiceDelta& delta);
  /// Appends what was held back, at the end of a choice without a stop string.
  void finish(api::ChoiceDelta& delta);

  [[nodiscard]] int num_tokens() const { return num_tokens_; }
  [[nodiscard]] int num_tool_calls() const { return num_tool_calls_; }

 private:
  struct HeldToken {
    api::TokenInfo info;
    std::size_t end = 0;  // bytes of text with it
  };
  bool append(std::string_view text, api::ChoiceDelta& delta);
  void end(api::ChoiceDelta& delta);
  void release_text(std::string_view text, api::ChoiceDelta& delta);
  void release_tokens(api::ChoiceDelta& delta);

  const text::Tokenizer& tokenizer_;
  ChoiceTextOptions options_;
  text::Detokenizer detokenizer_;
  text::StopStringMatcher stops_;
  std::optional<text::ToolCallParser> calls_;
  std::deque<HeldToken> held_;
  std::size_t decoded_bytes_ = 0;   // came out of the detokenizer
  std::size_t num_characters_;      // likewise, and those before them
  std::size_t released_bytes_ = 0;  // can be part of no stop string
  std::size_t num_released_characters_;
  int num_tokens_ = 0;
  int num_tool_calls_ = 0;
};

/// A token's id, bytes and logprobs as answers show them.
[[nodiscard]] api::TokenInfo token_info(const text::Tokenizer& tokenizer, TokenId id, std::optional<float> logprob,
                                        const std::vector<engine::TokenLogprob>& top);

}  // namespace redpoll::server
