#include "engine/engine_loop.h"

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "base/log.h"
#include "engine/event_queue.h"
#include "engine/request_summary.h"

namespace redpoll::engine {
namespace {

constexpr int kMaxFailuresInARow = 3;

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

EngineLoop::EngineLoop(const EngineOptions& options, const MemoryPlan& plan, LoadedModel loaded,
                       std::shared_ptr<Mailbox> mailbox, const Clock& clock)
    : options_(options),
      plan_(plan),
      mailbox_(std::move(mailbox)),
      clock_(clock),
      runner_(std::move(loaded), plan.num_blocks, options.block_tokens),
      pool_(plan.num_blocks),
      scheduler_({.max_batch = options.max_batch, .step_tokens = options.step_tokens}, pool_),
      delivery_(clock) {
  const models::ModelInfo& info = runner_.info();
  stats_.block_tokens = options.block_tokens;
  stats_.blocks_total = plan.num_blocks;
  stats_.kv_bytes_total = static_cast<std::size_t>(plan.num_blocks) * plan.bytes_per_block;
  stats_.weight_bytes = info.weight_bytes;
  stats_.memory_budget_bytes = plan.budget_bytes;
  stats_.max_context = plan.max_context;
  stats_.vocab_size = info.vocab_size;
  publish();
  mailbox_->open({.max_batch = options.max_batch,
                  .max_queue = options.max_queue,
                  .vocab_size = info.vocab_size,
                  .max_context = plan.max_context,
                  .model_context = info.context_length});
}

Result<std::unique_ptr<EngineLoop>> EngineLoop::load(const EngineOptions& options, const ModelLoader& loader,
                                                     std::shared_ptr<Mailbox> mailbox, const Clock& clock) {
  try {
    ASSIGN_OR_RETURN(LoadedModel loaded, loader());
    const models::ModelInfo& info = loaded.model->info();
    ASSIGN_OR_RETURN(const MemoryPlan plan,
                     plan_memory({.budget_bytes = options.memory_budget_bytes,
                                  .weight_bytes = info.weight_bytes,
                                  .bytes_per_block = cache::bytes_per_block(*loaded.kernels, cache_groups_of(info),
                                                                            options.block_tokens),
                                  .block_tokens = options.block_tokens,
                                  .model_context = info.context_length,
                                  .context_length = options.context_length,
                                  .max_batch = options.max_batch}));
    return std::unique_ptr<EngineLoop>(new EngineLoop(options, plan, std::move(loaded), std::move(mailbox), clock));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, std::string("the model could not be loaded: ") + error.what());
  }
}

void EngineLoop::run() {
  while (!is_stopping_ && !failure_) {
    try {
      step();
    } catch (const std::exception& error) {
      recover_from(error.what());
    }
  }
  shut_down();
}

/// One round: who has come and gone, who runs next, the forward pass, tokens and events out.
void EngineLoop::step() {
  take_commands();
  if (is_stopping_) return;
  mark(StepPhase::kCommands);
  const std::vector<Scheduled>& scheduled = scheduler_.schedule();
  mark(StepPhase::kSchedule);
  is_idle_ = scheduled.empty();
  publish();  // before the step, which may take long: who is new is seen, and who runs in it
  mark(StepPhase::kPublish);
  if (is_idle_) return;

  build_batch(scheduled, options_.block_tokens, batch_);
  const Clock::TimePoint started_at = clock_.now();
  Delivery::note_start(scheduled, started_at);
  mark(StepPhase::kBatch);
  const std::span<const float> logits = runner_.run(batch_.ragged);
  mark(StepPhase::kForward);
  deliver(scheduled, logits, started_at);
}

/// Waits when there was nothing to run.
void EngineLoop::take_commands() {
  Commands commands = is_idle_ ? mailbox_->wait_and_take() : mailbox_->take();
  if (is_idle_) mark(StepPhase::kIdle);
  is_stopping_ = commands.stop;
  for (Submission& submission : commands.submissions) admit(std::move(submission));
  for (const RequestId id : commands.cancellations) cancel(id);
  if (!commands.cancellations.empty()) finish_round();
  for (const auto& sequence : scheduler_.sequences()) {
    const Request& request = sequence->request();
    sequence->stalled = !request.events->has_room(static_cast<std::size_t>(request.num_choices));
  }
}

void EngineLoop::admit(Submission submission) {
  Request& request = submission.request;
  const int prompt_tokens = static_cast<int>(request.prompt.size());
  request.max_tokens = std::clamp(request.max_tokens, 0, plan_.max_context - prompt_tokens);
  request.events->set_on_room([weak = std::weak_ptr(mailbox_)] {
    if (const auto mailbox = weak.lock()) mailbox->wake();
  });
  stats_.prompt_tokens_total += request.prompt.size();

  const auto active = std::make_shared<ActiveRequest>(
      ActiveRequest{.request = std::move(request), .seed = 0, .submitted_at = submission.submitted_at});
  active->seed = active->request.sampling.seed.value_or(random_seed());
  for (int choice = 0; choice < active->request.num_choices; ++choice) {
    scheduler_.add(std::make_unique<Sequence>(active, choice, cache::SequenceCache(pool_, options_.block_tokens)));
  }
}

void EngineLoop::cancel(RequestId id) {
  bool found = false;
  for (const auto& sequence : scheduler_.sequences()) {
    if (sequence->request().id != id || sequence->state == SequenceState::kEnded) continue;
    delivery_.finish(*sequence, FinishReason::kCancelled);
    found = true;
  }
  if (found) ++stats_.cancellations;
}

void EngineLoop::deliver(const std::vector<Scheduled>& scheduled, std::span<const float> logits,
                         Clock::TimePoint started_at) {
  const StepCounts counts = delivery_.deliver(scheduled, batch_, logits, scheduler_.sequences());
  mark(StepPhase::kSample);
  num_failures_in_a_row_ = 0;
  ++stats_.steps;
  stats_.generated_tokens_total += static_cast<std::size_t>(counts.generated_tokens);
  mailbox_->record({.started_at = started_at,
                    .ended_at = clock_.now(),
                    .prompt_tokens = counts.prompt_tokens,
                    .generated_tokens = counts.generated_tokens});
  finish_round();
}

/// First the books, then the events: whoever has seen the last event of a request finds its place and blocks free.
void EngineLoop::finish_round() {
  std::vector<RequestId> ended;
  for (const auto& sequence : scheduler_.sequences()) {
    if (sequence->state == SequenceState::kEnded) ended.push_back(sequence->request().id);
  }
  scheduler_.remove_ended();
  for (const RequestId id : ended) {
    const bool has_siblings =
        std::ranges::any_of(scheduler_.sequences(), [&](const auto& sequence) { return sequence->request().id == id; });
    if (!has_siblings) mailbox_->forget(id);
  }
  publish();
  mark(StepPhase::kPublish);
  delivery_.flush();
  mark(StepPhase::kSend);
}

/// Nobody knows what a failed step has left in the cache, so all sequences start over with what they have written so
/// far. Those that were in it run alone next, so that only the one at fault fails.
void EngineLoop::recover_from(const std::string& what) {
  const std::vector<Scheduled>& scheduled = scheduler_.scheduled();
  log_error("a step failed", {{"reason", what}, {"sequences", std::to_string(scheduled.size())}});
  ++stats_.failed_steps;

  const bool is_retry = scheduled.size() == 1 && scheduled.front().sequence->alone_until > 0;
  if (!is_retry) ++num_failures_in_a_row_;
  if (scheduled.size() == 1) {
    const Error error{.code = ErrorCode::kInternal, .message = "the step failed: " + what, .param = {}};
    delivery_.fail(*scheduled.front().sequence->active, scheduler_.sequences(), error);
  }
  for (const auto& [sequence, num_tokens] : scheduled) {
    sequence->alone_until = std::min(sequence->num_computed + num_tokens, sequence->num_tokens());
  }
  scheduler_.restart_all();
  finish_round();

  if (num_failures_in_a_row_ >= kMaxFailuresInARow) {
    failure_ = "the engine has stopped because " + std::to_string(num_failures_in_a_row_) +
               " steps in a row failed, the last one with: " + what;
    return;
  }
  try {
    runner_.reset_cache();
  } catch (const std::exception& error) {
    failure_ = std::string("the engine has stopped because its cache could not be set up again: ") + error.what();
  }
}

void EngineLoop::shut_down() {
  if (failure_) log_error("the engine has failed", {{"reason", *failure_}});
  Commands left = mailbox_->close(failure_ ? EngineState::kFailed : EngineState::kStopped, failure_.value_or(""));
  for (Submission& submission : left.submissions) admit(std::move(submission));

  for (const auto& sequence : scheduler_.sequences()) {
    if (sequence->state == SequenceState::kEnded) continue;
    if (failure_) {
      const Error error{.code = ErrorCode::kUnavailable, .message = *failure_, .param = {}};
      delivery_.fail(*sequence->active, scheduler_.sequences(), error);
    } else {
      delivery_.finish(*sequence, FinishReason::kCancelled);
    }
  }
  finish_round();
}

void EngineLoop::publish() {
  stats_.blocks_used = pool_.num_used();
  stats_.kv_bytes_used = static_cast<std::size_t>(stats_.blocks_used) * plan_.bytes_per_block;
  stats_.preemptions = scheduler_.num_preemptions();
  stats_.requests = summarize_requests(scheduler_.sequences());
  stats_.waiting = static_cast<int>(std::ranges::count(stats_.requests, "waiting", &RequestStats::state));
  stats_.running = static_cast<int>(stats_.requests.size()) - stats_.waiting;
  mailbox_->publish(stats_);
}

}  // namespace redpoll::engine
