#include "engine/delivery.h"

#include <algorithm>
#include <utility>

#include "engine/event_queue.h"
#include "engine/sampling/logprobs.h"

namespace redpoll::engine {

struct Delivery::Rows {
  std::span<const float> values;
  std::size_t vocab_size;

  [[nodiscard]] std::span<const float> operator[](int row) const {
    return values.subspan(static_cast<std::size_t>(row) * vocab_size, vocab_size);
  }
};

void Delivery::note_start(const std::vector<Scheduled>& scheduled, Clock::TimePoint now) {
  for (const Scheduled& row : scheduled) {
    ActiveRequest& active = *row.sequence->active;
    if (!active.scheduled_at) active.scheduled_at = now;
  }
}

StepCounts Delivery::deliver(const std::vector<Scheduled>& scheduled, const StepBatch& batch,
                             std::span<const float> logits, const std::vector<std::unique_ptr<Sequence>>& all) {
  StepCounts counts;
  const Rows rows{.values = logits, .vocab_size = logits.size() / batch.ragged.logit_rows.size()};
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    Sequence& sequence = *scheduled[i].sequence;
    if (sequence.state == SequenceState::kEnded) continue;  // with a sibling that failed a moment ago
    const int prompt_left = std::max(sequence.num_prompt_tokens() - sequence.num_computed, 0);
    counts.prompt_tokens += std::min(scheduled[i].num_tokens, prompt_left);
    sequence.num_computed += scheduled[i].num_tokens;

    const int num_before = sequence.num_generated();
    if (const Status status = advance(sequence, batch.rows[i], rows); !status) {
      fail(*sequence.active, all, status.error());
    }
    counts.generated_tokens += sequence.num_generated() - num_before;
  }
  return counts;
}

Status Delivery::advance(Sequence& sequence, const LogitRows& own, const Rows& logits) {
  RETURN_IF_ERROR(score_prompt(sequence, own, logits));
  if (sequence.num_computed < sequence.num_prompt_tokens()) return {};
  if (sequence.scores_prompt()) {
    sequence.active->prompt_event_sent = true;
    send(sequence, PromptEvent{.tokens = std::exchange(sequence.active->prompt_scores, {})});
  }
  if (sequence.request().max_tokens == 0) {
    finish(sequence, FinishReason::kLength);
  } else if (own.has_next_token) {
    return choose_next_token(sequence, logits[own.first + own.num_scores]);
  }
  return {};
}

Status Delivery::score_prompt(Sequence& sequence, const LogitRows& own, const Rows& logits) {
  const Request& request = sequence.request();
  std::vector<PromptToken>& scores = sequence.active->prompt_scores;
  for (int i = 0; i < own.num_scores; ++i) {
    const std::span<const float> row = logits[own.first + i];
    if (!sampling::all_finite(row)) return std::unexpected(sampling::not_finite_error());
    const TokenId id = request.prompt[scores.size()];
    sampling::RowLogprobs scored = sampling::compute_logprobs(row, id, request.num_top_logprobs);
    scores.push_back({.id = id, .logprob = scored.logprob, .top = std::move(scored.top)});
  }
  return {};
}

Status Delivery::choose_next_token(Sequence& sequence, std::span<const float> row) {
  const Request& request = sequence.request();
  sequence.history.follow(sequence.tokens);
  const sampling::SamplingContext context{
      .params = request.sampling,
      .history = sequence.history,
      .key = {.seed = sequence.active->seed, .choice = sequence.choice, .position = sequence.num_tokens()},
      .stop_ids = request.stop_ids,
      .may_stop = sequence.num_generated() >= request.min_tokens};
  ASSIGN_OR_RETURN(const TokenId id, sampler_.sample(row, context));
  if (std::ranges::find(request.stop_ids, id) != request.stop_ids.end()) {
    finish(sequence, FinishReason::kStop);
    return {};
  }

  sequence.append(id);
  sequence.last_token_at = clock_.now();
  if (!sequence.first_token_at) sequence.first_token_at = sequence.last_token_at;
  TokenEvent event{.choice = sequence.choice, .id = id, .logprob = 0, .top = {}};
  if (request.num_top_logprobs >= 0) {
    sampling::RowLogprobs logprobs = sampling::compute_logprobs(row, id, request.num_top_logprobs);
    event.logprob = logprobs.logprob;
    event.top = std::move(logprobs.top);
  }
  send(sequence, std::move(event));
  if (sequence.num_generated() >= request.max_tokens) finish(sequence, FinishReason::kLength);
  return {};
}

void Delivery::finish(Sequence& sequence, FinishReason reason) {
  sequence.state = SequenceState::kEnded;
  send(sequence, FinishEvent{.choice = sequence.choice,
                             .reason = reason,
                             .prompt_tokens = sequence.num_prompt_tokens(),
                             .cached_tokens = 0,
                             .completion_tokens = sequence.num_generated(),
                             .timings = timings_of(sequence)});
}

Timings Delivery::timings_of(const Sequence& sequence) const {
  const ActiveRequest& active = *sequence.active;
  const Clock::TimePoint now = clock_.now();
  const Clock::TimePoint scheduled_at = active.scheduled_at.value_or(now);
  Timings timings{.queue_ms = milliseconds_between(active.submitted_at, scheduled_at),
                  .prefill_ms = milliseconds_between(scheduled_at, sequence.first_token_at.value_or(now)),
                  .decode_ms = 0,
                  .ttft_ms = 0};
  if (sequence.first_token_at) {
    timings.ttft_ms = milliseconds_between(active.submitted_at, *sequence.first_token_at);
    timings.decode_ms = milliseconds_between(*sequence.first_token_at, *sequence.last_token_at);
  }
  return timings;
}

void Delivery::fail(const ActiveRequest& failed, const std::vector<std::unique_ptr<Sequence>>& all,
                    const Error& error) {
  for (const auto& sequence : all) {
    if (sequence->active.get() == &failed) sequence->state = SequenceState::kEnded;
  }
  outbox_.emplace_back(failed.request.events, ErrorEvent{.error = error});
}

void Delivery::send(const Sequence& sequence, GenerationEvent event) {
  outbox_.emplace_back(sequence.request().events, std::move(event));
}

void Delivery::flush() {
  for (auto& [events, event] : outbox_) events->push(std::move(event));
  outbox_.clear();
}

}  // namespace redpoll::engine
