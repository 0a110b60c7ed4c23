#include "engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/available_memory.h"
#include "engine/event_queue.h"
#include "engine/model_memory.h"
#include "engine/stats/request_summary.h"

namespace redpoll::engine {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

cache::CachePools make_pools(const MemoryPlan& plan, int block_tokens) {
  std::vector<cache::GroupPool> groups;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const GroupCost& cost = plan.groups[i];
    groups.push_back({.kind = cost.kind, .window = cost.window, .num_blocks = plan.num_blocks[i]});
  }
  return {block_tokens, groups};
}

std::vector<std::size_t> bytes_per_block(const MemoryPlan& plan) {
  std::vector<std::size_t> bytes;
  for (const GroupCost& cost : plan.groups) bytes.push_back(cost.bytes_per_block);
  return bytes;
}

bool sees_unpacked(const cache::LayerCache& layer) {
  return layer.packing.bits != 0 && layer.packing.codes == kernels::KvCodes::kMlx;
}

/// None for the exact tier: mlx-lm computes every prompt from its beginning.
bool keeps_prompts(const EngineOptions& options) { return options.prompt_cache_bytes > 0 && !options.exact; }

}  // namespace

EngineLoop::EngineLoop(const EngineOptions& options, const MemoryPlan& plan, LoadedModel loaded,
                       std::shared_ptr<Mailbox> mailbox, const Clock& clock)
    : options_(options),
      plan_(plan),
      mailbox_(std::move(mailbox)),
      clock_(clock),
      runner_(std::move(loaded), plan.num_blocks, options.block_tokens,
              options.exact ? RowsOfAPass::kOne : RowsOfAPass::kAll),
      pools_(make_pools(plan, options.block_tokens)),
      scheduler_({.max_batch = options.max_batch,
                  .step_tokens = options.step_tokens,
                  .prompt_chunk = options.exact ? kernels::kExactPromptChunk : 0},
                 pools_,
                 keeps_prompts(options) ? &prompts_.emplace(pools_, bytes_per_block(plan),
                                                            std::min(options.prompt_cache_bytes, cache_bytes(plan)))
                                        : nullptr),
      delivery_(clock) {
  const models::ModelInfo& info = runner_.info();
  stats_.kv_scheme = runner_.kv_scheme();
  stats_.block_tokens = options.block_tokens;
  for (std::size_t group = 0; group < plan.groups.size(); ++group) {
    const auto& [kind, window, bytes_per_block] = plan.groups[group];
    const int num_blocks = plan.num_blocks[group];
    stats_.kv_groups.push_back(
        {.kind = kind, .window = window, .blocks_total = num_blocks, .bytes_per_block = bytes_per_block});
    stats_.blocks_total += num_blocks;
    stats_.kv_bytes_total += static_cast<std::size_t>(num_blocks) * bytes_per_block;
  }
  stats_.weight_bytes = info.weight_bytes;
  stats_.footprint = footprint_of(info, plan.groups, options.block_tokens);
  stats_.step_bytes = plan.step_bytes;
  stats_.memory_budget_bytes = plan.budget_bytes;
  stats_.context = {
      .tokens = plan.max_context, .model_tokens = info.context_length, .is_set = options.context_length > 0};
  stats_.vocab_size = info.vocab_size;
}

void EngineLoop::open_mailbox() {
  publish();
  mailbox_->open({.max_batch = options_.max_batch,
                  .max_queue = options_.max_queue,
                  .vocab_size = stats_.vocab_size,
                  .context = stats_.context,
                  .scores_prompts = std::ranges::none_of(runner_.info().layers, sees_unpacked)});
}

Result<std::unique_ptr<EngineLoop>> EngineLoop::load(const EngineOptions& options, const ModelLoader& loader,
                                                     std::shared_ptr<Mailbox> mailbox, const Clock& clock) {
  try {
    ASSIGN_OR_RETURN(LoadedModel loaded, loader());
    if (const auto warning = budget_warning(options.memory_budget_bytes, available_memory_bytes())) log_warn(*warning);
    const models::ModelInfo info = loaded.info();
    const ModelFootprint footprint =
        footprint_of(info, group_costs(info, *loaded.kernels, options.block_tokens), options.block_tokens);
    ASSIGN_OR_RETURN(const MemoryPlan plan, plan_memory(memory_request(footprint, options)));
    if (options.exact) RETURN_IF_ERROR(check_whole_chunks(plan, options.block_tokens));
    const std::string identity = loaded.identity;
    std::unique_ptr<EngineLoop> loop(new EngineLoop(options, plan, std::move(loaded), mailbox, clock));
    if (options.ssd_cache) RETURN_IF_ERROR(loop->open_disk_tier(identity));
    loop->open_mailbox();
    return loop;
  } catch (...) {
    return fail(ErrorCode::kInternal, "the model could not be loaded: " + message_of(std::current_exception()));
  }
}

Status EngineLoop::open_disk_tier(const std::string& identity) {
  if (!prompts_) {
    return fail(ErrorCode::kUnsupported,
                "--ssd-cache keeps what the prompt cache gives up, and with --exact or --prompt-cache 0 there is none",
                "ssd-cache");
  }
  const DiskTrafficParts parts{
      .kv = runner_.kv(), .pools = pools_, .prompts = *prompts_, .scheduler = scheduler_, .clock = clock_};
  const std::weak_ptr<Mailbox> weak(mailbox_);
  auto opened = DiskTraffic::open(*options_.ssd_cache, identity, parts, [weak] {
    if (const auto mailbox = weak.lock()) mailbox->wake();
  });
  if (!opened) return about_ssd_cache(std::move(opened).error());
  disk_ = *std::move(opened);
  return {};
}

void EngineLoop::run() noexcept {
  std::exception_ptr trouble;  // what a step has ended with; to be recovered from
  int num_failed_recoveries = 0;
  while (!is_stopping_ && !has_failed_) {
    const bool recovers = trouble != nullptr;
    try {
      if (recovers) {
        recover_from(message_of(trouble));
        trouble = nullptr;
        num_failed_recoveries = 0;
      } else {
        step();
      }
    } catch (...) {
      trouble = std::current_exception();
      if (!recovers) note_failure();
      has_failed_ = recovers && ++num_failed_recoveries == kMaxFailuresInARow;
    }
  }
  shut_down();
}

/// One round: who has come and gone, who runs next, the forward pass, tokens and events out.
void EngineLoop::step() {
  take_commands();
  if (is_stopping_) return;
  mark(StepPhase::kCommands);
  restore_from_disk();
  const std::vector<Scheduled>& scheduled = scheduler_.schedule();
  mark(StepPhase::kSchedule);
  is_idle_ = scheduled.empty();
  if (is_idle_ && disk_) is_idle_ = !disk_->write_when_idle();
  publish();  // before the step, which may take long: who is new is seen, and who runs in it
  mark(StepPhase::kPublish);
  if (scheduled.empty()) return;

  build_batch(scheduled, options_.block_tokens, batch_);
  const Clock::TimePoint started_at = clock_.now();
  delivery_.note_start(scheduled, started_at);
  for (const Scheduled& row : scheduled) {
    for (const cache::BlockCopy& copy : row.copies) runner_.copy_block(copy);
  }
  if (prompts_) prompts_->settle();
  mark(StepPhase::kBatch);
  const StepOutput output = runner_.run(batch_.ragged);
  mark(StepPhase::kForward);
  deliver(scheduled, output, started_at);
  if (disk_) disk_->write_between_steps();
}

void EngineLoop::restore_from_disk() {
  if (!disk_) return;
  const auto num_running = std::ranges::count_if(scheduler_.sequences(), [](const auto& sequence) {
    return sequence->state == SequenceState::kRunning && sequence->can_run();
  });
  disk_->restore(options_.max_batch - static_cast<int>(num_running));
}

/// Waits when there was nothing to run. If something is thrown, what is left is for the next round.
void EngineLoop::take_commands() {
  if (!all_are_told_) all_are_told_ = delivery_.flush();
  if (num_submissions_ == commands_.submissions.size() && commands_.cancellations.empty() &&
      commands_.questions.empty()) {
    num_submissions_ = 0;
    if (is_idle_) check_integrity();
    auto limit = all_are_told_ ? std::nullopt : std::optional(kBeforeTellingAgain);
    if (!limit && disk_) limit = disk_->before_next_look();
    commands_ = is_idle_ ? mailbox_->wait_and_take(limit) : mailbox_->take();
    if (is_idle_) mark(StepPhase::kIdle);
    is_stopping_ = commands_.stop;
  }
  while (num_submissions_ < commands_.submissions.size()) admit(std::move(commands_.submissions[num_submissions_++]));
  for (const Cancellation& cancellation : commands_.cancellations) cancel(cancellation);
  commands_.cancellations.clear();
  answer_questions();
  look_after_consumers();
}

void EngineLoop::answer_questions() {
  while (!commands_.questions.empty()) {
    CacheQuestion question = std::move(commands_.questions.back());
    commands_.questions.pop_back();
    try {
      question.answer.set_value(explain(question.query));
    } catch (...) {
      question.answer.set_value(fail(ErrorCode::kInternal, message_of(std::current_exception())));
    }
  }
}

/// What Scheduler::may_use_prompt_cache says of a request, and then what it would find.
CacheExplanation EngineLoop::explain(const CacheQuery& query) {
  const std::vector<TokenId>& prompt = query.prompt;
  CacheExplanation explanation{.prompt_tokens = static_cast<int>(prompt.size())};
  if (!prompts_) return explanation;
  explanation.stop = CacheStop::kScoresPrompt;
  if (query.prompt_logprobs) return explanation;
  const int most = explanation.prompt_tokens - 1;
  const cache::PromptCache::Beginning beginning = prompts_->look_at(prompt, most);
  explanation.memory_tokens = beginning.num_resumable;
  if (disk_) disk_->explain(prompt, explanation);
  explanation.common_tokens = beginning.num_common;
  explanation.evicted_tokens = beginning.num_evicted;
  const int cached = explanation.cached_tokens();
  const auto stop = [&] {
    if (cached == most) return CacheStop::kEndOfPrompt;
    if (std::min(beginning.num_common, most) > cached) return CacheStop::kNoSnapshot;
    if (std::min(beginning.num_evicted, most) > cached) return CacheStop::kEvicted;
    if (std::min(explanation.other_tokens, most) > cached) return CacheStop::kOtherNamespace;
    if (beginning.num_common == cached && beginning.next) return CacheStop::kDifferent;
    return CacheStop::kNothingCached;
  };
  explanation.stop = stop();
  if (explanation.stop == CacheStop::kDifferent) explanation.cached_token = beginning.next;
  return explanation;
}

/// In debug builds, when there is time for it.
void EngineLoop::check_integrity() const {
#ifndef NDEBUG
  const Status status = pools_.check_integrity();
  CHECK(status, status.error().message);
  if (prompts_) {
    const Status tree = prompts_->check_integrity();
    CHECK(tree, tree.error().message);
  }
  const bool is_held =
      (disk_ && disk_->is_restoring()) || !scheduler_.sequences().empty() || (prompts_ && !prompts_->empty());
  CHECK(is_held || pools_.num_used() == 0, "blocks are held by nobody");
#endif
}

/// Notes whose consumers have fallen behind, and ends what cannot be delivered any more.
void EngineLoop::look_after_consumers() {
  bool has_ended = false;
  for (const auto& sequence : scheduler_.sequences()) {
    const Request& request = sequence->request();
    sequence->active->stalled = !request.events->has_room(static_cast<std::size_t>(request.num_choices));
    if (request.events->is_broken_off()) sequence->state = SequenceState::kEnded;
    has_ended |= sequence->state == SequenceState::kEnded;
  }
  if (has_ended) finish_round();
}

void EngineLoop::admit(Submission submission) noexcept {
  const RequestId id = submission.request.id;
  const std::shared_ptr<EventQueue> events = submission.request.events;
  try {
    add_request(std::move(submission));
  } catch (...) {
    for (const auto& sequence : scheduler_.sequences()) {
      if (sequence->request().id == id) sequence->state = SequenceState::kEnded;
    }
    mailbox_->forget(id);
    delivery_.break_off(events, "the server has no memory left for this request");
  }
}

void EngineLoop::add_request(Submission submission) {
  Request& request = submission.request;
  const std::size_t num_prompt_tokens = request.prompt.size();
  request.max_tokens = std::clamp(request.max_tokens, 0, plan_.max_context - static_cast<int>(num_prompt_tokens));
  request.events->set_on_room([weak = std::weak_ptr(mailbox_)] {
    if (const auto mailbox = weak.lock()) mailbox->wake();
  });

  const auto active = std::make_shared<ActiveRequest>(
      ActiveRequest{.request = std::move(request), .seed = 0, .submitted_at = submission.submitted_at});
  active->seed = active->request.sampling.seed.value_or(random_seed());
  if (active->request.prompt_logprobs) {  // nothing comes before the first token
    active->prompt_scores.push_back({.id = active->request.prompt.front(), .logprob = 0, .top = {}});
  }
  for (int choice = 0; choice < active->request.num_choices; ++choice) {
    scheduler_.add(std::make_unique<Sequence>(active, choice, cache::SequenceCache(pools_)));
  }
  stats_.prompt_tokens_total += num_prompt_tokens;
}

void EngineLoop::cancel(const Cancellation& cancellation) {
  const auto& [id, choice] = cancellation;
  bool found = false;
  for (const auto& sequence : scheduler_.sequences()) {
    if (sequence->request().id != id || sequence->state == SequenceState::kEnded) continue;
    if (choice && sequence->choice != *choice) continue;
    delivery_.finish(*sequence, FinishReason::kCancelled);
    found = true;
  }
  if (found && !choice) ++stats_.cancellations;
}

void EngineLoop::deliver(const std::vector<Scheduled>& scheduled, const StepOutput& output,
                         Clock::TimePoint started_at) {
  const StepCounts counts = delivery_.deliver(scheduled, batch_, output, scheduler_.sequences());
  mark(StepPhase::kSample);
  num_failures_in_a_row_ = 0;
  ++stats_.steps;
  stats_.generated_tokens_total += static_cast<std::size_t>(counts.generated_tokens);
  const StepRecord record{.started_at = started_at,
                          .ended_at = clock_.now(),
                          .prompt_tokens = counts.prompt_tokens,
                          .generated_tokens = counts.generated_tokens};
  mailbox_->record(record);
  if (disk_) disk_->note_step(record);
  finish_round();
}

/// First the books, then the events: whoever has seen the last event of a request finds its place and blocks free.
void EngineLoop::finish_round() {
  const auto& all = scheduler_.sequences();
  for (const auto& sequence : all) {
    if (sequence->state != SequenceState::kEnded) continue;
    const bool goes_on = std::ranges::any_of(all, [&](const auto& other) {
      return other->active == sequence->active && other->state != SequenceState::kEnded;
    });
    if (!goes_on) mailbox_->forget(sequence->request().id);
  }
  scheduler_.remove_ended();
  publish();
  mark(StepPhase::kPublish);
  all_are_told_ = delivery_.flush();
  mark(StepPhase::kSend);
}

void EngineLoop::publish() {
  stats_.blocks_used = pools_.num_used();
  stats_.kv_bytes_used = 0;
  for (int group = 0; group < pools_.num_groups(); ++group) {
    const auto num_used = static_cast<std::size_t>(pools_.pool(group).num_used());
    stats_.kv_bytes_used += num_used * plan_.groups[static_cast<std::size_t>(group)].bytes_per_block;
  }
  if (prompts_) stats_.prompt_cache = prompts_->stats();
  if (disk_) stats_.ssd_cache = disk_->stats();
  stats_.preemptions = scheduler_.num_preemptions();
  stats_.requests = summarize_requests(scheduler_.sequences());
  stats_.waiting = static_cast<int>(std::ranges::count(stats_.requests, "waiting", &RequestStats::state));
  stats_.running = static_cast<int>(stats_.requests.size()) - stats_.waiting;
  mailbox_->publish(stats_);
}

}  // namespace redpoll::engine
