// Request and GenerationEvent: what goes into the engine and what comes out. Token ids only; no text, no JSON, no MLX.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "engine/sampling_params.h"

namespace redpoll::engine {

class EventQueue;

using RequestId = std::uint64_t;

/// One prompt and how to go on from it. `events` receives everything that happens to it.
struct Request {
  RequestId id = 0;  // unique per engine: from Engine::next_request_id
  std::string name;  // the x-request-id, for /stats and logs
  std::vector<TokenId> prompt;
  SamplingParams sampling;

  int max_tokens = 0;  // generated tokens at most; 0 scores the prompt only. Clamped to what the context leaves.
  int min_tokens = 0;  // stop ids are masked out before this many
  std::vector<TokenId> stop_ids;  // any of them ends a choice; it is neither delivered nor counted
  int num_choices = 1;

  int num_top_logprobs = -1;     // -1: no logprobs; 0: the chosen token's; up to 20: and the best others
  bool prompt_logprobs = false;  // one PromptEvent before the first token

  /// How many tokens of the prompt are likely to begin others, too: what a chat template writes of tools and system
  /// messages. A hint for the prompt cache.
  int num_stable_tokens = 0;

  int priority = 0;  // higher first among waiting requests, then first come first served
  std::shared_ptr<EventQueue> events;
};

/// Natural log of the model's own distribution, before penalties, temperature and filters.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// The first event of a request: it has come to be computed.
struct StartEvent {
  double queue_ms = 0;    // submitted to first scheduled
  int cached_tokens = 0;  // of the prompt, that its first choice goes on from
};

struct TokenEvent {
  int choice = 0;
  TokenId id = 0;
  float logprob = 0;              // when logprobs were asked for
  std::vector<TokenLogprob> top;  // descending; ties by ascending id
};

struct PromptToken {
  TokenId id = 0;
  float logprob = 0;  // given the tokens before it; 0 and meaningless for the first
  std::vector<TokenLogprob> top;
};
struct PromptEvent {
  std::vector<PromptToken> tokens;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct Timings {
  double queue_ms = 0;    // submitted to first scheduled
  double prefill_ms = 0;  // first scheduled to first token
  double decode_ms = 0;   // first token to last
  double ttft_ms = 0;     // submitted to first token
};

/// The last event of a choice.
struct FinishEvent {
  int choice = 0;
  FinishReason reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;
  Timings timings;
};

/// The whole request failed; no further events follow.
struct ErrorEvent {
  Error error;
};

using GenerationEvent = std::variant<StartEvent, PromptEvent, TokenEvent, FinishEvent, ErrorEvent>;

}  // namespace redpoll::engine
