#include "engine/delivery.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/event_queue.h"
#include "engine/sampling/logprobs.h"
#include "kernels/finite.h"

namespace redpoll::engine {

namespace {

/// Of the tokens of a row. What comes of a bad one may be seen in no logits for long, or by nobody ever.
Status check_finite(const kernels::BatchRow& row, std::span<const bool> finite_tokens) {
  if (finite_tokens.empty()) return {};
  const auto own =
      finite_tokens.subspan(static_cast<std::size_t>(row.first_token), static_cast<std::size_t>(row.num_tokens));
  if (std::ranges::all_of(own, std::identity())) return {};
  return redpoll::fail(ErrorCode::kInternal, "the model computed numbers that are not finite for this request");
}

}  // namespace

struct Delivery::Rows {
  std::span<const float> values;
  std::size_t vocab_size;

  [[nodiscard]] std::span<const float> operator[](int row) const {
    return values.subspan(static_cast<std::size_t>(row) * vocab_size, vocab_size);
  }
};

void Delivery::note_start(const std::vector<Scheduled>& scheduled, Clock::TimePoint now) {
  make_room(scheduled.size());
  for (const Scheduled& row : scheduled) {
    ActiveRequest& active = *row.sequence->active;
    if (active.scheduled_at) continue;
    active.scheduled_at = now;
    send(*row.sequence, StartEvent{.queue_ms = milliseconds_between(active.submitted_at, now),
                                   .cached_tokens = row.sequence->num_cached});
  }
}

StepCounts Delivery::deliver(const std::vector<Scheduled>& scheduled, const StepBatch& batch, const StepOutput& output,
                             const std::vector<std::unique_ptr<Sequence>>& all) {
  constexpr std::size_t kMostEvents = 3;  // of a sequence in a step: the prompt's, a token, the end
  make_room(kMostEvents * scheduled.size());
  StepCounts counts;
  const Rows rows{.values = output.logits, .vocab_size = output.logits.size() / batch.ragged.logit_rows.size()};
  for (std::size_t i = 0; i < scheduled.size(); ++i) {
    Sequence& sequence = *scheduled[i].sequence;
    if (sequence.state == SequenceState::kEnded) continue;  // with a sibling that failed a moment ago
    const int prompt_left = std::max(sequence.num_prompt_tokens() - sequence.num_computed(), 0);
    counts.prompt_tokens += std::min(scheduled[i].num_tokens, prompt_left);
    sequence.cache.advance(scheduled[i].num_tokens);

    const int num_before = sequence.num_generated();
    Status status = check_finite(batch.ragged.rows[i], output.finite_tokens);
    if (status) status = advance(sequence, batch.rows[i], rows);
    if (!status) fail(*sequence.active, all, status.error());
    counts.generated_tokens += sequence.num_generated() - num_before;
  }
  return counts;
}

Status Delivery::advance(Sequence& sequence, const LogitRows& own, const Rows& logits) {
  RETURN_IF_ERROR(score_prompt(sequence, own, logits));
  if (sequence.num_computed() < sequence.num_prompt_tokens()) return {};
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
    if (!kernels::all_finite(row)) return std::unexpected(sampling::not_finite_error());
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

  TokenEvent event{.choice = sequence.choice, .id = id, .logprob = 0, .top = {}};
  if (request.num_top_logprobs >= 0) {
    sampling::RowLogprobs logprobs = sampling::compute_logprobs(row, id, request.num_top_logprobs);
    event.logprob = logprobs.logprob;
    event.top = std::move(logprobs.top);
  }
  sequence.append(id);
  sequence.last_token_at = clock_.now();
  if (!sequence.first_token_at) sequence.first_token_at = sequence.last_token_at;
  send(sequence, std::move(event));
  if (sequence.num_generated() >= request.max_tokens) finish(sequence, FinishReason::kLength);
  return {};
}

void Delivery::finish(Sequence& sequence, FinishReason reason) {
  make_room(1);
  sequence.state = SequenceState::kEnded;
  send(sequence, FinishEvent{.choice = sequence.choice,
                             .reason = reason,
                             .prompt_tokens = sequence.num_prompt_tokens(),
                             .cached_tokens = sequence.num_cached,
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
  GenerationEvent event = ErrorEvent{.error = error};
  make_room(1);
  for (const auto& sequence : all) {
    if (sequence->active.get() != &failed) continue;
    sequence->state = SequenceState::kEnded;
    sequence->has_failed = true;
  }
  outbox_.push_back({.to = failed.request.events, .event = std::move(event)});
}

void Delivery::break_off(const std::shared_ptr<EventQueue>& events, const char* why) noexcept {
  events->break_off(why);
  if (events->ring()) return;
  try {
    outbox_.push_back({.to = events, .event = std::nullopt});
  } catch (...) {
    return;  // the consumer will find the end of its request when it looks by itself
  }
}

/// So that sending so many cannot fail.
void Delivery::make_room(std::size_t num_events) {
  const std::size_t needed = outbox_.size() + num_events;
  if (needed > outbox_.capacity()) outbox_.reserve(std::max(needed, 2 * outbox_.capacity()));
}

void Delivery::send(const Sequence& sequence, GenerationEvent event) {
  outbox_.push_back({.to = sequence.request().events, .event = std::move(event)});
}

bool Delivery::flush() noexcept {
  for (Mail& mail : outbox_) {
    const bool is_told = mail.event ? mail.to->push(*std::exchange(mail.event, std::nullopt)) : mail.to->ring();
    if (is_told || mail.to.use_count() == 1) mail.to.reset();
  }
  std::erase_if(outbox_, [](const Mail& mail) { return mail.to == nullptr; });
  return outbox_.empty();
}

}  // namespace redpoll::engine
