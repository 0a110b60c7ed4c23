#include "engine/scheduler.h"

#include <algorithm>
#include <ranges>
#include <unordered_map>
#include <utility>

namespace redpoll::engine {
namespace {

bool is_running(const Sequence& sequence) { return sequence.state == SequenceState::kRunning; }
bool is_waiting(const Sequence& sequence) { return sequence.state == SequenceState::kWaiting; }
bool is_suspect(const Sequence& sequence) { return sequence.alone_until > sequence.num_computed; }

/// Blocks still to be taken for the tokens that are known and the one that comes next.
int num_missing_blocks(const Sequence& sequence) {
  const int num_next = sequence.num_generated() < sequence.request().max_tokens ? 1 : 0;
  return sequence.cache.blocks_for(sequence.num_tokens() + num_next) - sequence.cache.num_blocks();
}

bool has_prompt(const Sequence& sequence) { return sequence.num_computed >= sequence.num_prompt_tokens(); }

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
    const bool is_new = is_waiting(*sequence);
    if (is_new && !may_start(*sequence)) continue;
    const std::optional<cache::BlockCopy> copy = is_new ? start(*sequence) : std::nullopt;
    const int num_tokens = make_room(*sequence, wanted_tokens(*sequence, options_.step_tokens));
    if (num_tokens > 0) {
      scheduled_.push_back({.sequence = sequence.get(), .num_tokens = num_tokens, .copy = copy});
      return true;
    }
    if (is_new) set_back(*sequence);
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
    const std::optional<cache::BlockCopy> copy = start(*next);
    const int num_tokens = make_room(*next, wanted_tokens(*next, budget_left()));
    scheduled_.push_back({.sequence = next, .num_tokens = num_tokens, .copy = copy});
  }
}

int Scheduler::wanted_tokens(const Sequence& sequence, int budget) const {
  int wanted = std::min(sequence.num_uncomputed(), budget);
  if (sequence.scores_prompt()) wanted = std::min(wanted, kMaxScoredTokensPerStep);
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
  int needed = num_missing_blocks(sequence);
  if (const Sequence* donor = leading_sibling(sequence)) {
    needed -= sequence.cache.num_whole_blocks(donor->num_shareable_with(sequence));
  }
  for (const auto& other : sequences_) {
    if (is_running(*other) && !other->active->stalled) needed += std::max(num_missing_blocks(*other), 0);
  }
  if (needed > pool_.num_free() && needed > pool_.num_free() + num_blocks_of_stalled()) return false;
  while (needed > pool_.num_free()) preempt(*youngest_stalled());
  return true;
}

/// With the prompt of a sibling, if one has it.
std::optional<cache::BlockCopy> Scheduler::start(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  const Sequence* donor = leading_sibling(sequence);
  if (donor == nullptr) return std::nullopt;
  const int num_tokens = donor->num_shareable_with(sequence);
  std::optional<cache::SequenceCache::Fork> fork = donor->cache.fork(num_tokens);
  if (!fork) return std::nullopt;  // no block for its own end of the prompt
  sequence.cache = std::move(fork->cache);
  sequence.num_computed = num_tokens;
  return fork->copy;
}

/// To the sequence that will be started next, if it has no other sibling to take the prompt from.
void Scheduler::hand_prompt_down() {
  Sequence* heir = next_waiting();
  if (heir == nullptr || leading_sibling(*heir) != nullptr) return;
  for (const auto& ended : sequences_) {
    if (ended->state != SequenceState::kEnded || ended->active != heir->active) continue;
    const int num_tokens = ended->num_shareable_with(*heir);
    if (num_tokens <= heir->num_computed) continue;
    heir->cache = std::move(ended->cache);
    heir->cache.truncate(num_tokens);
    heir->num_computed = num_tokens;
    heir->state = SequenceState::kRunning;
  }
}

/// The running choice of the same request that has computed most of the prompt.
const Sequence* Scheduler::leading_sibling(const Sequence& sequence) const {
  if (sequence.request().num_choices == 1) return nullptr;
  const Sequence* leading = nullptr;
  for (const auto& other : sequences_) {
    if (other->active != sequence.active || other.get() == &sequence || !is_running(*other)) continue;
    if (leading == nullptr || other->num_computed > leading->num_computed) leading = other.get();
  }
  return leading;
}

/// False while a sibling computes the prompt for both.
bool Scheduler::may_start(const Sequence& sequence) const {
  const Sequence* sibling = leading_sibling(sequence);
  return sibling == nullptr || has_prompt(*sibling);
}

Sequence* Scheduler::next_waiting() const {
  Sequence* next = nullptr;
  for (const auto& sequence : sequences_) {
    if (!is_waiting(*sequence) || !sequence->can_run() || is_suspect(*sequence)) continue;
    if (next != nullptr && sequence->request().priority <= next->request().priority) continue;
    if (may_start(*sequence)) next = sequence.get();
  }
  return next;
}

Sequence* Scheduler::youngest_stalled() const {
  for (const auto& sequence : sequences_ | std::views::reverse) {
    if (is_running(*sequence) && sequence->active->stalled) return sequence.get();
  }
  return nullptr;
}

/// What would be free without them: blocks that they share with others would not.
int Scheduler::num_blocks_of_stalled() const {
  std::unordered_map<cache::BlockId, int> num_holders;
  for (const auto& sequence : sequences_) {
    if (!is_running(*sequence) || !sequence->active->stalled) continue;
    for (const cache::BlockId block : sequence->cache.table()) ++num_holders[block];
  }
  return static_cast<int>(
      std::ranges::count_if(num_holders, [&](const auto& held) { return pool_.num_users(held.first) == held.second; }));
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
  for (const auto& sequence : sequences_) {  // those that have ended, too: nobody may inherit from them
    if (is_running(*sequence)) sequence->state = SequenceState::kWaiting;
    sequence->cache.release();
    sequence->num_computed = 0;
  }
}

void Scheduler::remove_ended() {
  scheduled_.clear();
  hand_prompt_down();
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->state == SequenceState::kEnded; });
}

int Scheduler::budget_left() const {
  int budget = options_.step_tokens;
  for (const Scheduled& row : scheduled_) budget -= row.num_tokens;
  return budget;
}

}  // namespace redpoll::engine
