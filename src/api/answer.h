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

/// A call of one of the request's tools.
struct ToolCall {
  int index = 0;   // among the calls of its choice
  std::string id;  // unique
  std::string name;
  std::string arguments;  // JSON text of an object
};

/// kToolCalls: stopped by itself, after at least one call.
enum class FinishReason { kStop, kLength, kToolCalls };

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

/// What is new in one choice. `text` is whole characters. Tokens are needed only when the options ask for logprobs or
/// token ids; a token whose text is held back or part of a call may come with an earlier or later delta. Text, calls
/// and tokens may be empty, but not all at once.
struct ChoiceDelta {
  int choice = 0;
  std::string text;
  std::vector<ToolCall> tool_calls = {};
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
  std::string text;                       // valid UTF-8; with the prompt before it when echoed
  std::vector<ToolCall> tool_calls = {};  // in order
  std::vector<TokenInfo> prompt_tokens;   // echoed ones only
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
