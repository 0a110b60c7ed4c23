// The native types of text generation that every protocol (OpenAI today) is parsed into and formatted from. Plain
// values: no JSON but what a chat template reads, no sockets, no device. Numbers are in range here: the parsers check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/token.h"

namespace redpoll::api {

/// What a parser cannot know by itself.
struct RequestLimits {
  int max_choices = 8;     // largest `n`
  int max_prompts = 1024;  // prompts in one /v1/completions request
  int vocab_size = 0;      // token ids must be below it; 0: not checked
};

/// How the next token is chosen, as far as the request says; the rest comes from flags, generation_config.json and
/// defaults, in this order.
struct SamplingOverrides {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;  // 0: off
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<float> xtc_probability;
  std::optional<float> xtc_threshold;
  std::optional<float> repetition_penalty;
  std::optional<int> repetition_context_size;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> dry_multiplier;
  std::optional<float> dry_base;
  std::optional<int> dry_allowed_length;
  std::optional<std::vector<std::string>> dry_sequence_breakers;  // text: the caller tokenizes
  std::vector<std::pair<TokenId, float>> logit_bias;              // ascending ids, no duplicates
  std::optional<std::uint64_t> seed;
};

/// What generation requests of every protocol share.
struct GenerationOptions {
  SamplingOverrides sampling;
  std::optional<int> max_tokens;
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;  // up to 16, none empty
  int num_choices = 1;
  std::optional<int> num_top_logprobs;  // absent: no logprobs; 0: the chosen token's only; up to 20
  bool return_token_ids = false;
  int priority = 0;  // higher first
  bool stream = false;
  bool include_usage = false;  // only with stream
};

/// What a chat template reads. Messages are normalised: `developer` is `system`, text parts are joined, null content is
/// "", null fields are gone, the `arguments` of tool calls are objects instead of text. Key order is the client's.
struct Conversation {
  json::array messages;
  json::array tools;  // empty when there are none or `tool_choice` is "none"
  json::object chat_template_kwargs;  // with `reasoning_effort` and `enable_thinking` where the request implies them
  bool add_generation_prompt = true;
};

struct ChatRequest {
  std::string model;  // "": the served one
  Conversation conversation;
  GenerationOptions options;
  std::vector<std::string> warnings;  // unknown fields, by path; see format_warnings in api/errors.h
};

using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  std::string model;
  std::vector<CompletionPrompt> prompts;  // at least one; token lists are not empty
  bool echo = false;                      // with logprobs: the prompt is scored too
  GenerationOptions options;              // max_tokens may be 0
  std::vector<std::string> warnings;
};

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
  std::string text;  // valid UTF-8; with the prompt before it when echoed
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
  std::string id;  // unique: "chatcmpl-" + id
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string system_fingerprint;
};

}  // namespace redpoll::api
