// The engine loop when something has gone wrong, and when it ends.
#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/engine_loop.h"

namespace redpoll::engine {
namespace {

constexpr int kTimesToTellAgain = 100;

}  // namespace

std::string EngineLoop::message_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

/// A sequence that runs alone since an earlier failure is known to be at fault: its own say nothing of the engine.
void EngineLoop::note_failure() {
  ++stats_.failed_steps;
  const std::vector<Scheduled>& scheduled = scheduler_.scheduled();
  const bool is_retry = scheduled.size() == 1 && scheduled.front().sequence->alone_until > 0;
  if (!is_retry) ++num_failures_in_a_row_;
}

/// Nobody knows what a failed step has left in the cache, so all sequences start over with what they have written so
/// far. Those that were in it run alone next, so that only the one at fault fails. May be called again if it throws.
void EngineLoop::recover_from(const std::string& what) {
  const std::vector<Scheduled>& scheduled = scheduler_.scheduled();
  is_idle_ = false;  // commands may be left
  log_error("a step failed", {{"reason", what}, {"sequences", std::to_string(scheduled.size())}});
  if (scheduled.size() == 1 && scheduled.front().sequence->state != SequenceState::kEnded) {
    const Error error{.code = ErrorCode::kInternal, .message = "the step failed: " + what, .param = {}};
    delivery_.fail(*scheduled.front().sequence->active, scheduler_.sequences(), error);
  }
  for (const Scheduled& row : scheduled) {
    Sequence& sequence = *row.sequence;
    sequence.alone_until = std::min(sequence.num_computed() + row.num_tokens, sequence.num_tokens());
  }
  if (disk_) disk_->abort();
  scheduler_.restart_all();
  finish_round();

  if (num_failures_in_a_row_ >= kMaxFailuresInARow) {
    give_up("the engine has stopped because " + std::to_string(num_failures_in_a_row_) +
            " steps in a row failed, the last one with: " + what);
    return;
  }
  try {
    runner_.reset_cache();
  } catch (...) {
    give_up("the engine has stopped because its cache could not be set up again: " +
            message_of(std::current_exception()));
  }
}

void EngineLoop::give_up(std::string why) {
  failure_ = std::move(why);
  has_failed_ = true;
}

void EngineLoop::shut_down() noexcept {
  Commands left;
  try {
    if (has_failed_ && failure_.empty())
      failure_ = "the engine has stopped because it could not recover from a failed step";
    if (has_failed_) log_error("the engine has failed", {{"reason", failure_}});
    left = mailbox_->close(has_failed_ ? EngineState::kFailed : EngineState::kStopped, failure_);
  } catch (...) {
    left = mailbox_->close(has_failed_ ? EngineState::kFailed : EngineState::kStopped, {});
  }
  while (num_submissions_ < commands_.submissions.size()) admit(std::move(commands_.submissions[num_submissions_++]));
  for (Submission& submission : left.submissions) admit(std::move(submission));
  end_all();
  if (disk_ && !has_failed_) disk_->flush();
  for (int i = 0; i < kTimesToTellAgain && !all_are_told_; ++i) {
    std::this_thread::sleep_for(kBeforeTellingAgain);
    all_are_told_ = delivery_.flush();
  }
}

/// With an event for each, however little memory there is.
void EngineLoop::end_all() noexcept {
  for (const auto& sequence : scheduler_.sequences()) {
    if (sequence->state == SequenceState::kEnded) continue;
    try {
      if (has_failed_) {
        const Error error{.code = ErrorCode::kUnavailable, .message = failure_, .param = {}};
        delivery_.fail(*sequence->active, scheduler_.sequences(), error);
      } else {
        delivery_.finish(*sequence, FinishReason::kCancelled);
      }
    } catch (...) {
      sequence->state = SequenceState::kEnded;
      delivery_.break_off(sequence->request().events, "the engine has stopped");
    }
  }
  try {
    finish_round();
  } catch (...) {
    all_are_told_ = delivery_.flush();  // the picture of the engine is a little old
  }
}

}  // namespace redpoll::engine
