// Delivery: turns the logits of a step into tokens and events, and ends sequences. Events are kept back until `flush`,
// so that whoever sees one finds the engine's books already up to date. Knows no device and no scheduling.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/batch.h"
#include "engine/sampling/sampler.h"
#include "engine/sequence.h"

namespace redpoll::engine {

/// What a step got done, for the statistics.
struct StepCounts {
  int prompt_tokens = 0;
  int generated_tokens = 0;
};

/// Used by the engine thread only.
class Delivery {
 public:
  explicit Delivery(const Clock& clock) : clock_(clock) {}

  /// Notes when requests first came to be computed. Before the step runs.
  static void note_start(const std::vector<Scheduled>& scheduled, Clock::TimePoint now);
  /// Moves every scheduled sequence on by its tokens; chooses, appends and sends the next token where all are computed.
  /// `logits` (rows, vocab_size). `all` are the sequences there are: if one fails, its siblings end with it.
  StepCounts deliver(const std::vector<Scheduled>& scheduled, const StepBatch& batch, std::span<const float> logits,
                     const std::vector<std::unique_ptr<Sequence>>& all);

  /// Ends a choice.
  void finish(Sequence& sequence, FinishReason reason);
  /// Ends all choices of a request with one ErrorEvent.
  void fail(const ActiveRequest& failed, const std::vector<std::unique_ptr<Sequence>>& all, const Error& error);
  /// Sends what has been kept back.
  void flush();

 private:
  struct Rows;
  [[nodiscard]] Status advance(Sequence& sequence, const LogitRows& own, const Rows& logits);
  [[nodiscard]] static Status score_prompt(Sequence& sequence, const LogitRows& own, const Rows& logits);
  [[nodiscard]] Status choose_next_token(Sequence& sequence, std::span<const float> row);
  [[nodiscard]] Timings timings_of(const Sequence& sequence) const;

  void send(const Sequence& sequence, GenerationEvent event);

  const Clock& clock_;
  sampling::Sampler sampler_;
  std::vector<std::pair<std::shared_ptr<EventQueue>, GenerationEvent>> outbox_;
};

}  // namespace redpoll::engine
