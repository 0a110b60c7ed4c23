// The native form of an answer, whole or streamed, before a protocol gives it its JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace redpoll::api {

/// One token as an answer shows it. `bytes` need not be whole characters.
struct TokenAlternative {
  TokenId id = 0;
  std::string bytes;
  float logprob = 0;  // natural log of the model's own distribution
};
struct TokenInfo {
  TokenId id = 0;
  std::string bytes;
  std::optional<float> logprob;       // absent when not asked for, and for the first token of a prompt
  std::vector<TokenAlternative> top;  // descending
  /// Characters of the choice's whole text before it. A token that holds the rest of a character begins where that
  /// does, and one that shows no text (a special token, a space that the tokenizer put there) where the next would.
  std::size_t text_offset = 0;
};

enum class FinishReason { kStop, kLength };

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;
  int reasoning_tokens = 0;
};

struct Timings {
  double queue_ms = 0;    // submitted to first scheduled
  double prefill_ms = 0;  // first scheduled to first token
  double decode_ms = 0;   // first token to last
  double ttft_ms = 0;     // submitted to first token
};

/// New text of one choice. `text` is whole characters; both may be empty, but not at once. Tokens are needed only when
/// the options ask for logprobs or token ids; a token whose text is held back may come with an earlier or later delta.
struct ChoiceDelta {
  int choice = 0;
  std::string text;
  std::vector<TokenInfo> tokens;
  bool echo = false;  // the prompt repeated: its tokens count for logprobs, not for `token_ids`
};

/// The end of one streamed choice.
struct ChoiceEnd {
  int choice = 0;
  FinishReason reason = FinishReason::kStop;
  Usage usage;  // of this choice
  Timings timings;
};

struct ChoiceResult {
  std::string text;                      // valid UTF-8; with the prompt before it when echoed
  std::vector<TokenInfo> prompt_tokens;  // echoed ones only
  std::vector<TokenInfo> tokens;
  FinishReason reason = FinishReason::kStop;
};

/// A whole answer. With several prompts, choice c of prompt p is at p * n + c.
struct Answer {
  std::vector<ChoiceResult> choices;
  std::vector<std::vector<TokenId>> prompt_token_ids;  // one list a prompt, when `return_token_ids` asks for them
  Usage usage;
  Timings timings;
};

/// What every answer and chunk of one request repeats. The protocol puts its own prefix before the id.
struct AnswerHead {
  std::string id;            // unique: "chatcmpl-" + id
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string system_fingerprint;
};

}  // namespace redpoll::api
