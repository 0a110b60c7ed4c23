// Sequence: one choice of a request while it is being computed. There is no prefill phase and no decode phase: a
// sequence has tokens, some of which are computed, and each step brings the second number closer to the first. When
// all are computed, the next token is chosen and appended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "cache/sequence_cache.h"
#include "engine/request.h"
#include "engine/sampling/token_history.h"

namespace redpoll::engine {

/// What the choices of one request share.
struct ActiveRequest {
  Request request;  // max_tokens is what the context leaves at most
  std::uint64_t seed = 0;
  Clock::TimePoint submitted_at;
  std::optional<Clock::TimePoint> scheduled_at = std::nullopt;
  /// Its consumer has fallen behind, so none of its choices may run.
  bool stalled = false;
  std::vector<PromptToken> prompt_scores = {};  // with prompt_logprobs, as far as computed
  bool prompt_event_sent = false;
};

enum class SequenceState {
  kWaiting,  // holds no blocks: new, or preempted and to be computed again
  kRunning,
  kEnded,  // swept away after the step, whose last event it has
};

/// Plain data of the engine thread. The scheduler starts it, forks it and sets it back (state, cache); delivery
/// moves it on (tokens, cache) and ends it.
struct Sequence {
  Sequence(std::shared_ptr<ActiveRequest> active_request, int choice_index, cache::SequenceCache empty_cache);

  std::shared_ptr<ActiveRequest> active;
  int choice;
  std::uint64_t arrival = 0;  // given by the scheduler: lower is older

  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;  // prompt and generated
  cache::SequenceCache cache;   // of the tokens computed so far

  /// Where it pauses in its prompt to leave what it has to others that begin alike.
  std::set<int> branches = {};
  std::uint64_t leader = 0;  // arrival of the sequence whose beginning it waits for
  int num_led = 0;           // tokens of that; 0: it waits for nobody

  // The disk tier of the prompt cache; see DiskTraffic.
  bool has_asked_disk = false;  // what it has is known, and read if it was worth it
  bool waits_for_disk = false;  // it may not run

  int num_cached = 0;        // tokens of the prompt that it was first started with
  bool has_started = false;  // it may have been set back since
  bool has_failed = false;

  /// A step that it was in has failed: until this many tokens are computed it runs alone, so that only the culprit
  /// fails.
  int alone_until = 0;

  sampling::TokenHistory history;  // of tokens
  std::optional<Clock::TimePoint> first_token_at;
  std::optional<Clock::TimePoint> last_token_at;

  [[nodiscard]] const Request& request() const { return active->request; }
  [[nodiscard]] int num_tokens() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] int num_prompt_tokens() const { return static_cast<int>(request().prompt.size()); }
  [[nodiscard]] int num_generated() const { return num_tokens() - num_prompt_tokens(); }
  [[nodiscard]] int num_computed() const { return cache.num_computed(); }
  [[nodiscard]] int num_uncomputed() const { return num_tokens() - num_computed(); }

  /// The prompt's logprobs are wanted and not out yet: whichever choice computes the prompt delivers them, for all.
  [[nodiscard]] bool scores_prompt() const { return request().prompt_logprobs && !active->prompt_event_sent; }
  /// A step that it was in has failed, and it has not come through alone yet.
  [[nodiscard]] bool is_suspect() const { return alone_until > num_computed(); }
  /// What siblings can take over of the prompt: all but the token that a next one is chosen from.
  [[nodiscard]] int num_common_tokens() const { return num_prompt_tokens() - 1; }
  /// Its consumer would take what it says next, and its beginning is not being read.
  [[nodiscard]] bool can_run() const { return state != SequenceState::kEnded && !active->stalled && !waits_for_disk; }
  /// How many computed tokens a sibling could take over from it: of the prompt, but for the token that a next one is
  /// chosen from.
  [[nodiscard]] int num_shareable_with(const Sequence& sibling) const {
    return std::min({num_computed(), num_prompt_tokens(), sibling.num_tokens() - 1});
  }

  /// Cannot throw: there is room for max_tokens.
  void append(TokenId id) noexcept { tokens.push_back(id); }
};

}  // namespace redpoll::engine
