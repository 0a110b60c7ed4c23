// Mailbox: what the engine thread shares with everybody else: requests and cancellations in, a picture of the engine
// out. Every function holds one short lock; none waits for a step.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "engine/context_limit.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/stats/cache_explanation.h"
#include "engine/stats/step_statistics.h"

namespace redpoll::engine {

struct Submission {
  Request request;
  Clock::TimePoint submitted_at;
};

struct Cancellation {
  RequestId id = 0;
  std::optional<int> choice;  // nothing: all of them

  bool operator==(const Cancellation&) const = default;
};

/// Of somebody who waits for the answer.
struct CacheQuestion {
  CacheQuery query;
  std::promise<Result<CacheExplanation>> answer;
};

/// What has been asked of the engine thread since it last looked.
struct Commands {
  std::vector<Submission> submissions;
  std::vector<Cancellation> cancellations;  // each submitted before, perhaps in the same round
  std::vector<CacheQuestion> questions;
  bool stop = false;
};

/// What a request is checked against; known once a model is loaded.
struct AdmissionLimits {
  int max_batch = 0;
  int max_queue = 0;
  int vocab_size = 0;
  ContextLimit context;
  /// False with codes of the exact tier: prompts that are scored come in chunks of kMaxScoredTokensPerStep, of which
  /// all but the first would see codes where mlx-optiq, and the same prompt without scores, sees floats.
  bool scores_prompts = true;
};

class Mailbox {
 public:
  // For any thread.
  [[nodiscard]] Status submit(Request request, Clock::TimePoint now);
  [[nodiscard]] Status ask(CacheQuestion question);
  /// Needs no memory for a whole request, so that a destructor may ask for it.
  void cancel(const Cancellation& cancellation);
  void stop();
  /// Makes the engine thread look again: a consumer has taken events.
  void wake();
  [[nodiscard]] EngineStats stats(Clock::TimePoint now) const;

  // For the engine thread.
  void open(const AdmissionLimits& limits);
  /// Refuses everything from now on and returns what had not been taken yet.
  [[nodiscard]] Commands close(EngineState state, std::string reason);
  [[nodiscard]] Commands take();
  /// Like take, but waits until there is something, somebody has called wake, or `limit` has passed.
  [[nodiscard]] Commands wait_and_take(std::optional<std::chrono::milliseconds> limit);
  /// A request's last event is out, so its place in the queue is free.
  void forget(RequestId id) noexcept;
  void publish(EngineStats snapshot);
  void record(const StepRecord& step);

 private:
  [[nodiscard]] Status check_state() const;
  [[nodiscard]] Status check_request(const Request& request) const;
  [[nodiscard]] Status check_prompt(std::span<const TokenId> prompt, int max_tokens) const;
  [[nodiscard]] bool has_commands() const;
  [[nodiscard]] Commands hand_over();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AdmissionLimits limits_;
  std::unordered_map<RequestId, bool> unfinished_;  // and whether it is to be cancelled as a whole
  bool cancels_whole_ = false;                      // one of them is
  Commands commands_;
  std::vector<RequestStats> unpublished_;  // submitted, and not in the snapshot yet
  std::size_t num_taken_ = 0;              // of them, by the engine thread
  bool woken_ = false;
  EngineStats snapshot_;
  StepStatistics statistics_;
};

}  // namespace redpoll::engine
