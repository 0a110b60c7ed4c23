// Delivery: turns the logits of a step into tokens and events, and ends sequences. Events are kept back until `flush`,
// so that whoever sees one finds the engine's books already up to date. Knows no device and no scheduling.
//
// Memory may run out anywhere. A function that throws has left each sequence as it was or moved it on with its events
// kept, so that the tokens can be computed again and none is lost or sent twice.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/batch.h"
#include "engine/model_runner.h"
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
  void note_start(const std::vector<Scheduled>& scheduled, Clock::TimePoint now);
  /// Moves every scheduled sequence on by its tokens; chooses, appends and sends the next token where all are computed.
  /// What is not finite fails the request whose token it is. `all` are the sequences there are: if one fails, its
  /// siblings end with it.
  StepCounts deliver(const std::vector<Scheduled>& scheduled, const StepBatch& batch, const StepOutput& output,
                     const std::vector<std::unique_ptr<Sequence>>& all);

  /// Ends a choice.
  void finish(Sequence& sequence, FinishReason reason);
  /// Ends all choices of a request with one ErrorEvent.
  void fail(const ActiveRequest& failed, const std::vector<std::unique_ptr<Sequence>>& all, const Error& error);
  /// For a request that nothing can be kept for.
  void break_off(const std::shared_ptr<EventQueue>& events, const char* why) noexcept;
  /// Sends what has been kept back. False: somebody could not be told, and is to be by another call.
  [[nodiscard]] bool flush() noexcept;

 private:
  struct Rows;
  struct Mail {
    std::shared_ptr<EventQueue> to;
    std::optional<GenerationEvent> event;  // nothing: it is in the queue, but its consumer does not know
  };
  [[nodiscard]] Status advance(Sequence& sequence, const LogitRows& own, const Rows& logits);
  [[nodiscard]] static Status score_prompt(Sequence& sequence, const LogitRows& own, const Rows& logits);
  [[nodiscard]] Status choose_next_token(Sequence& sequence, std::span<const float> row);
  [[nodiscard]] Timings timings_of(const Sequence& sequence) const;

  void make_room(std::size_t num_events);
  void send(const Sequence& sequence, GenerationEvent event);

  const Clock& clock_;
  sampling::Sampler sampler_;
  std::vector<Mail> outbox_;
};

}  // namespace redpoll::engine
