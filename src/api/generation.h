// The native form of a generation request, whatever protocol it came in. Plain values: no JSON but what a chat template
// reads, no sockets, no device. Numbers are in range here: the parsers check. The answers to them are in api/answer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/answer.h"
#include "base/json.h"
#include "base/token.h"

namespace redpoll::api {

/// What a parser cannot know by itself.
struct RequestLimits {
  int max_choices = 128;   // largest `n`, as at OpenAI
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
  std::optional<int> repetition_context_size;  // 0: everything
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
  std::vector<std::string> stop;  // up to 16 of 4096 bytes, none empty
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
  json::array tools;                  // empty when there are none or `tool_choice` is "none"
  json::object chat_template_kwargs;  // with `reasoning_effort` and `enable_thinking` where the request implies them
  std::optional<std::size_t> first_system_part;  // bytes of the first system message that came as its first part
  bool add_generation_prompt = true;
  bool parallel_tool_calls = true;  // false: the answer ends after its first call
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

}  // namespace redpoll::api
