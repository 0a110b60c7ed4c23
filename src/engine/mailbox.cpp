#include "engine/mailbox.h"

#include <algorithm>
#include <utility>

namespace redpoll::engine {
namespace {

std::string number(std::size_t value) { return std::to_string(value); }

RequestStats waiting_stats(const Request& request) {
  return {.name = request.name, .state = "waiting", .prompt_tokens = static_cast<int>(request.prompt.size())};
}

template <typename T>
void make_room_for_one(std::vector<T>& items) {
  if (items.size() == items.capacity()) items.reserve(2 * items.size() + 1);
}

}  // namespace

Status Mailbox::submit(Request request, Clock::TimePoint now) {
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(check_state());
    RETURN_IF_ERROR(check_request(request));
    // Whatever memory runs out here, a request is in all of these or in none.
    RequestStats stats = waiting_stats(request);
    make_room_for_one(unpublished_);
    make_room_for_one(commands_.submissions);
    unfinished_.emplace(request.id, false);
    unpublished_.push_back(std::move(stats));
    commands_.submissions.push_back({.request = std::move(request), .submitted_at = now});
  }
  changed_.notify_one();
  return {};
}

Status Mailbox::check_state() const {
  switch (snapshot_.state) {
    case EngineState::kReady: return {};
    case EngineState::kLoading: return fail(ErrorCode::kUnavailable, "the model is still being loaded");
    case EngineState::kFailed: return fail(ErrorCode::kUnavailable, snapshot_.reason);
    case EngineState::kStopped: break;
  }
  return fail(ErrorCode::kUnavailable, "the engine is stopping");
}

Status Mailbox::check_request(const Request& request) const {
  CHECK(request.events != nullptr, "a request needs somewhere to send its events");
  CHECK(!unfinished_.contains(request.id), "request ids come from next_request_id");
  if (request.num_choices < 1) return fail(ErrorCode::kInvalidArgument, "expected at least one choice", "n");
  RETURN_IF_ERROR(check_prompt(request.prompt, request.max_tokens));
  if (request.prompt_logprobs && !limits_.scores_prompts) {
    return fail(ErrorCode::kInvalidArgument,
                "a server with --exact and --kv-quant gives no logprobs of the prompt: the answer would not be the one "
                "without them; leave out echo or logprobs, or start it with one of the two flags alone",
                "echo");
  }

  const auto most = static_cast<std::size_t>(limits_.max_batch) + static_cast<std::size_t>(limits_.max_queue);
  if (unfinished_.size() >= most) {
    return fail(ErrorCode::kQueueFull, "the queue is full: " + number(unfinished_.size()) +
                                           " requests are unfinished, and this server takes " +
                                           std::to_string(limits_.max_batch) + " at a time with " +
                                           std::to_string(limits_.max_queue) + " more waiting; try again later");
  }
  return {};
}

Status Mailbox::check_prompt(std::span<const TokenId> prompt, int max_tokens) const {
  if (prompt.empty()) return fail(ErrorCode::kInvalidArgument, "expected a prompt of at least one token");
  const auto bad = std::ranges::find_if(prompt, [&](TokenId id) { return id < 0 || id >= limits_.vocab_size; });
  if (bad != prompt.end()) {
    return fail(ErrorCode::kInvalidArgument, "expected token ids from 0 to " + std::to_string(limits_.vocab_size - 1) +
                                                 ", got " + std::to_string(*bad));
  }

  const std::size_t prompt_tokens = prompt.size();
  const auto context = static_cast<std::size_t>(limits_.context.tokens);
  if (prompt_tokens > context || (prompt_tokens == context && max_tokens > 0)) {
    const std::string what = prompt_tokens > context ? "" : ", which leaves no room for an answer";
    return std::unexpected(context_length_exceeded(limits_.context, prompt_tokens, number(prompt_tokens) + what));
  }
  return {};
}

Status Mailbox::ask(CacheQuestion question) {
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(check_state());
    RETURN_IF_ERROR(check_prompt(question.query.prompt, 0));
    commands_.questions.push_back(std::move(question));
  }
  changed_.notify_one();
  return {};
}

void Mailbox::cancel(const Cancellation& cancellation) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = unfinished_.find(cancellation.id);
    if (found == unfinished_.end() || found->second) return;
    if (!cancellation.choice) {
      found->second = cancels_whole_ = true;
    } else if (std::ranges::find(commands_.cancellations, cancellation) == commands_.cancellations.end()) {
      commands_.cancellations.push_back(cancellation);
    }
  }
  changed_.notify_one();
}

void Mailbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    commands_.stop = true;
  }
  changed_.notify_one();
}

void Mailbox::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

EngineStats Mailbox::stats(Clock::TimePoint now) const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = snapshot_;
  stats.waiting += static_cast<int>(unpublished_.size());
  stats.requests.insert(stats.requests.end(), unpublished_.begin(), unpublished_.end());
  const StepRates rates = statistics_.rates(now);
  stats.step_ms_p50 = rates.step_ms_p50;
  stats.tokens_per_s = rates.tokens_per_s;
  stats.prefill_tokens_per_s = rates.prefill_tokens_per_s;
  return stats;
}

void Mailbox::open(const AdmissionLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  snapshot_.state = EngineState::kReady;
}

Commands Mailbox::close(EngineState state, std::string reason) {
  const std::lock_guard lock(mutex_);
  snapshot_.state = state;
  snapshot_.reason = std::move(reason);
  unfinished_.clear();
  return hand_over();
}

Commands Mailbox::take() {
  const std::lock_guard lock(mutex_);
  return hand_over();
}

Commands Mailbox::wait_and_take(std::optional<std::chrono::milliseconds> limit) {
  std::unique_lock lock(mutex_);
  if (limit) {
    changed_.wait_for(lock, *limit, [this] { return has_commands(); });
  } else {
    changed_.wait(lock, [this] { return has_commands(); });
  }
  return hand_over();
}

bool Mailbox::has_commands() const {
  return woken_ || commands_.stop || cancels_whole_ || !commands_.submissions.empty() || !commands_.questions.empty() ||
         !commands_.cancellations.empty();
}

/// With the lock held. What is handed over stays in the stats until the engine thread publishes its own picture of it.
Commands Mailbox::hand_over() {
  if (cancels_whole_) {
    for (const auto& [id, is_cancelled] : unfinished_) {
      if (is_cancelled) commands_.cancellations.push_back({.id = id, .choice = std::nullopt});
    }
    cancels_whole_ = false;
  }
  woken_ = false;
  num_taken_ = unpublished_.size();
  return std::exchange(commands_, {});
}

void Mailbox::forget(RequestId id) noexcept {
  const std::lock_guard lock(mutex_);
  unfinished_.erase(id);
}

void Mailbox::publish(EngineStats snapshot) {
  const std::lock_guard lock(mutex_);
  snapshot.state = snapshot_.state;
  snapshot.reason = snapshot_.reason;
  snapshot_ = std::move(snapshot);
  unpublished_.erase(unpublished_.begin(), unpublished_.begin() + static_cast<std::ptrdiff_t>(num_taken_));
  num_taken_ = 0;
}

void Mailbox::record(const StepRecord& step) {
  const std::lock_guard lock(mutex_);
  statistics_.add(step);
}

}  // namespace redpoll::engine
