#include "engine/scheduler.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace redpoll::engine {
namespace {

/// Scoring a prompt needs a row of logits per token, each as long as the vocabulary.
constexpr int kMaxScoredTokensPerStep = 64;

bool is_running(const Sequence& sequence) { return sequence.state == SequenceState::kRunning; }
bool is_waiting(const Sequence& sequence) { return sequence.state == SequenceState::kWaiting; }
bool is_suspect(const Sequence& sequence) { return sequence.alone_until > sequence.num_computed; }

/// Blocks still to be taken for the tokens that are known and the one that comes next.
int num_missing_blocks(const Sequence& sequence) {
  const int num_next = sequence.num_generated() < sequence.request().max_tokens ? 1 : 0;
  return sequence.cache.blocks_for(sequence.num_tokens() + num_next) - sequence.cache.num_blocks();
}

void set_back(Sequence& sequence) {
  sequence.cache.release();
  sequence.num_computed = 0;
  sequence.state = SequenceState::kWaiting;
}

}  // namespace

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrival = next_arrival_++;
  sequences_.push_back(std::move(sequence));
}

const std::vector<Scheduled>& Scheduler::schedule() {
  scheduled_.clear();
  for (const auto& sequence : sequences_) {
    if (!is_suspect(*sequence)) sequence->alone_until = 0;  // acquitted
  }
  if (schedule_suspect()) return scheduled_;
  const std::size_t preemptions_before = num_preemptions_;
  schedule_running();
  // Who was set back a moment ago must not be started again at once.
  if (num_preemptions_ == preemptions_before) schedule_waiting();
  return scheduled_;
}

/// The oldest sequence that a failed step has made suspicious, and nothing else.
bool Scheduler::schedule_suspect() {
  for (const auto& sequence : sequences_) {
    if (!is_suspect(*sequence) || !sequence->can_run()) continue;
    const int num_tokens = make_room(*sequence, wanted_tokens(*sequence, options_.step_tokens));
    if (num_tokens == 0) continue;
    sequence->state = SequenceState::kRunning;
    scheduled_.push_back({.sequence = sequence.get(), .num_tokens = num_tokens});
    return true;
  }
  return false;
}

void Scheduler::schedule_running() {
  std::vector<Scheduled> rows;
  int budget = options_.step_tokens;
  for (const auto& sequence : sequences_) {
    if (static_cast<int>(rows.size()) == options_.max_batch) break;
    if (!is_running(*sequence) || !sequence->can_run() || is_suspect(*sequence)) continue;
    rows.push_back({.sequence = sequence.get(), .num_tokens = sequence->num_uncomputed() == 1 ? 1 : 0});
    budget -= rows.back().num_tokens;
  }
  for (Scheduled& row : rows) {
    if (row.num_tokens != 0) continue;
    row.num_tokens = wanted_tokens(*row.sequence, budget);
    budget -= row.num_tokens;
  }
  // Oldest first: who is preempted for another's sake is younger, so it has not been given its turn yet.
  for (const Scheduled& row : rows) {
    if (!is_running(*row.sequence)) continue;
    const int num_tokens = make_room(*row.sequence, row.num_tokens);
    if (num_tokens > 0) scheduled_.push_back({.sequence = row.sequence, .num_tokens = num_tokens});
  }
}

void Scheduler::schedule_waiting() {
  while (static_cast<int>(scheduled_.size()) < options_.max_batch && budget_left() > 0) {
    Sequence* next = next_waiting();
    if (next == nullptr || !make_room_to_start(*next)) return;
    next->state = SequenceState::kRunning;
    const int num_tokens = make_room(*next, wanted_tokens(*next, budget_left()));
    scheduled_.push_back({.sequence = next, .num_tokens = num_tokens});
  }
}

int Scheduler::wanted_tokens(const Sequence& sequence, int budget) const {
  int wanted = std::min(sequence.num_uncomputed(), budget);
  if (sequence.scores_prompt() && !sequence.active->prompt_event_sent) {
    wanted = std::min(wanted, kMaxScoredTokensPerStep);
  }
  return wanted;
}

/// Gives the sequence blocks for up to this many more tokens, others' if need be; returns for how many there is room.
int Scheduler::make_room(Sequence& sequence, int num_tokens) {
  while (!sequence.cache.ensure_capacity(sequence.num_computed + num_tokens)) {
    Sequence* victim = youngest_stalled();
    if (victim == nullptr) victim = youngest_after(sequence);
    if (victim == nullptr) {
      num_tokens = sequence.cache.reachable_capacity() - sequence.num_computed;
    } else {
      preempt(*victim);
    }
  }
  return num_tokens;
}

/// True if all tokens of a waiting sequence fit beside what the running ones still need, if need be after taking the
/// blocks of stalled ones.
bool Scheduler::make_room_to_start(const Sequence& sequence) {
  int available = pool_.num_free() - num_missing_blocks(sequence);
  int num_stalled_blocks = 0;
  for (const auto& other : sequences_) {
    if (!is_running(*other)) continue;
    if (other->stalled) {
      num_stalled_blocks += other->cache.num_blocks();
    } else {
      available -= std::max(num_missing_blocks(*other), 0);
    }
  }
  if (available + num_stalled_blocks < 0) return false;
  while (available < 0) {
    Sequence* victim = youngest_stalled();
    available += victim->cache.num_blocks();
    preempt(*victim);
  }
  return true;
}

Sequence* Scheduler::next_waiting() const {
  Sequence* next = nullptr;
  for (const auto& sequence : sequences_) {
    if (!is_waiting(*sequence) || !sequence->can_run() || is_suspect(*sequence)) continue;
    if (next == nullptr || sequence->request().priority > next->request().priority) next = sequence.get();
  }
  return next;
}

Sequence* Scheduler::youngest_stalled() const {
  for (const auto& sequence : sequences_ | std::views::reverse) {
    if (is_running(*sequence) && sequence->stalled) return sequence.get();
  }
  return nullptr;
}

Sequence* Scheduler::youngest_after(const Sequence& sequence) const {
  for (const auto& other : sequences_ | std::views::reverse) {
    if (other->arrival <= sequence.arrival) break;
    if (is_running(*other)) return other.get();
  }
  return nullptr;
}

void Scheduler::preempt(Sequence& sequence) {
  ++num_preemptions_;
  set_back(sequence);
}

void Scheduler::restart_all() {
  for (const auto& sequence : sequences_) {
    if (is_running(*sequence)) set_back(*sequence);
  }
}

void Scheduler::remove_ended() {
  scheduled_.clear();
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->state == SequenceState::kEnded; });
}

int Scheduler::budget_left() const {
  int budget = options_.step_tokens;
  for (const Scheduled& row : scheduled_) budget -= row.num_tokens;
  return budget;
}

}  // namespace redpoll::engine
