#include "engine/scheduler.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <utility>

namespace redpoll::engine {
namespace {

bool is_running(const Sequence& sequence) { return sequence.state == SequenceState::kRunning; }
bool is_waiting(const Sequence& sequence) { return sequence.state == SequenceState::kWaiting; }

/// Blocks of the group still to be taken for the tokens that are known and the one that comes next.
int num_missing_blocks(int group, const Sequence& sequence) {
  const int num_next = sequence.num_generated() < sequence.request().max_tokens ? 1 : 0;
  return sequence.cache.num_missing(group, sequence.num_tokens() + num_next);
}

void set_back(Sequence& sequence) {
  sequence.cache.release();
  sequence.state = SequenceState::kWaiting;
}

}  // namespace

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrival = next_arrival_++;
  follow_a_leader(*sequence);
  sequences_.push_back(std::move(sequence));
}

const std::vector<Scheduled>& Scheduler::schedule() {
  scheduled_.clear();
  for (const auto& sequence : sequences_) {
    if (!sequence->is_suspect()) sequence->alone_until = 0;  // acquitted
  }
  if (schedule_suspect()) return scheduled_;
  const std::size_t preemptions_before = num_preemptions_;
  schedule_running();
  // Who was set back a moment ago must not be started again at once.
  if (num_preemptions_ == preemptions_before) schedule_waiting();
  spend_rest();
  for (const Scheduled& row : scheduled_) leave_snapshot(*row.sequence);
  return scheduled_;
}

/// The oldest sequence that a failed step has made suspicious, and nothing else.
bool Scheduler::schedule_suspect() {
  for (const auto& sequence : sequences_) {
    if (!sequence->is_suspect() || !sequence->can_run()) continue;
    const bool is_new = is_waiting(*sequence);
    if (is_new && !may_start(*sequence)) continue;
    std::vector<cache::BlockCopy> copies;
    if (is_new) copies = start(*sequence);
    const int num_tokens = make_room(*sequence, wanted_tokens(*sequence, options_.step_tokens));
    if (num_tokens > 0) {
      scheduled_.push_back({.sequence = sequence.get(), .num_tokens = num_tokens, .copies = std::move(copies)});
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
    if (!is_running(*sequence) || !sequence->can_run() || sequence->is_suspect()) continue;
    rows.push_back({.sequence = sequence.get(), .num_tokens = sequence->num_uncomputed() == 1 ? 1 : 0});
    budget -= rows.back().num_tokens;
  }
  share_among_prompts(rows, budget);
  // Those who generate take their block before a prompt takes as many as there are.
  for (const Scheduled& row : rows) {
    cache::SequenceCache& cache = row.sequence->cache;
    while (row.num_tokens == 1 && !cache.ensure_capacity(cache.num_computed() + 1) && evict()) {
    }
  }
  // Oldest first: who is preempted for another's sake is younger, so it has not been given its turn yet.
  for (const Scheduled& row : rows) {
    if (!is_running(*row.sequence)) continue;
    const int num_tokens = make_room(*row.sequence, row.num_tokens);
    if (num_tokens > 0) scheduled_.push_back({.sequence = row.sequence, .num_tokens = num_tokens});
  }
}

/// What is left of a step when each that generates has its token. The oldest prompt is sure of half, so that it always
/// moves on; then those with the fewest tokens left come first. What is for waiting ones is left over.
void Scheduler::share_among_prompts(std::vector<Scheduled>& rows, int budget) const {
  std::vector<Scheduled*> prompts;
  for (Scheduled& row : rows) {
    if (row.num_tokens == 0) prompts.push_back(&row);
  }
  if (prompts.empty()) return;
  const auto give = [&](Scheduled& row, int most) {
    const int more = wanted_tokens(*row.sequence, row.num_tokens + most) - row.num_tokens;
    row.num_tokens += more;
    budget -= more;
  };
  give(*prompts.front(), (budget + 1) / 2);
  const auto tokens_left = [](const Scheduled* row) { return row->sequence->num_uncomputed(); };
  std::ranges::sort(prompts, {},
                    [&](const Scheduled* row) { return std::pair(tokens_left(row), row->sequence->arrival); });
  const std::vector<int> waiting = tokens_of_next_waiting(options_.max_batch - static_cast<int>(rows.size()));
  auto next_waiting = waiting.begin();
  for (Scheduled* row : prompts) {
    for (; next_waiting != waiting.end() && *next_waiting < tokens_left(row); ++next_waiting) {
      budget -= std::min(budget, *next_waiting);
    }
    give(*row, budget);
  }
}

std::vector<Sequence*> Scheduler::waiting() const {
  std::vector<Sequence*> waiting;
  for (const auto& sequence : sequences_) {
    if (is_waiting(*sequence) && sequence->can_run() && !sequence->is_suspect()) waiting.push_back(sequence.get());
  }
  std::ranges::sort(waiting, {}, [](const Sequence* s) { return std::pair(-s->request().priority, s->arrival); });
  return waiting;
}

/// Of up to so many sequences that would start next, ascending; of the choices of a request the first. None if the very
/// next has no room.
std::vector<int> Scheduler::tokens_of_next_waiting(int num_sequences) const {
  const Sequence* next = next_waiting();
  if (next == nullptr || !has_room_to_start(*next)) return {};
  std::vector<int> tokens;
  const ActiveRequest* last = nullptr;
  for (const Sequence* sequence : waiting()) {
    if (static_cast<int>(tokens.size()) >= num_sequences) break;
    if (!may_start(*sequence) || sequence->active.get() == last) continue;  // choices come one after the other
    last = sequence->active.get();
    tokens.push_back(sequence->num_uncomputed());
  }
  std::ranges::sort(tokens);
  return tokens;
}

/// On prompts that run, if those for which it was left over could not start.
void Scheduler::spend_rest() {
  for (Scheduled& row : scheduled_) {
    const int num_tokens = wanted_tokens(*row.sequence, row.num_tokens + budget_left());
    if (num_tokens <= row.num_tokens) continue;
    if (row.sequence->cache.ensure_capacity(row.sequence->num_computed() + num_tokens)) row.num_tokens = num_tokens;
  }
}

void Scheduler::schedule_waiting() {
  while (static_cast<int>(scheduled_.size()) < options_.max_batch && budget_left() > 0) {
    Sequence* next = next_waiting();
    if (next == nullptr || !make_room_to_start(*next)) return;
    std::vector<cache::BlockCopy> copies = start(*next);
    const int num_tokens = make_room(*next, wanted_tokens(*next, budget_left()));
    if (num_tokens == 0) return set_back(*next);
    next->has_started = true;
    scheduled_.push_back({.sequence = next, .num_tokens = num_tokens, .copies = std::move(copies)});
  }
}

/// Of a sequence whose prompt comes in whole chunks: none if the budget is less than the next one.
int Scheduler::exact_tokens(const Sequence& sequence, int budget) const {
  const int prompt_left = sequence.num_common_tokens() - sequence.num_computed();
  const int chunk = sequence.scores_prompt() ? kMaxScoredTokensPerStep : options_.prompt_chunk;
  const int wanted = prompt_left > 0 ? std::min(prompt_left, chunk) : 1;
  return wanted <= budget ? wanted : 0;
}

int Scheduler::wanted_tokens(const Sequence& sequence, int budget) const {
  if (options_.prompt_chunk > 0) return exact_tokens(sequence, budget);
  int wanted = std::min(sequence.num_uncomputed(), budget);
  if (sequence.scores_prompt()) wanted = std::min(wanted, kMaxScoredTokensPerStep);
  return std::min(wanted, next_pause(sequence) - sequence.num_computed());
}

/// Gives the sequence blocks for up to this many more tokens, if need be the prompt cache's, then those of stalled
/// ones, and those of younger ones if it could not move at all; returns for how many there is room.
int Scheduler::make_room(Sequence& sequence, int num_tokens) {
  while (!sequence.cache.ensure_capacity(sequence.num_computed() + num_tokens)) {
    if (evict()) continue;
    const bool is_whole = options_.prompt_chunk > 0;  // or nothing
    const int num_reachable = sequence.cache.reachable_capacity() - sequence.num_computed();
    Sequence* victim = youngest_stalled();
    if (victim == nullptr && (num_reachable == 0 || is_whole)) victim = youngest_after(sequence);
    if (victim == nullptr) {
      num_tokens = is_whole ? 0 : num_reachable;
    } else {
      preempt(*victim);
    }
  }
  return num_tokens;
}

/// True if all tokens of a waiting sequence fit beside what the running ones still need, if need be after taking the
/// blocks of the prompt cache's entries and of stalled ones.
bool Scheduler::make_room_to_start(const Sequence& sequence) {
  if (!has_room_to_start(sequence)) return false;
  for (int group = 0; group < pools_.num_groups(); ++group) {
    const int needed = num_blocks_to_start(group, sequence);
    while (needed > pools_.pool(group).num_free()) {
      if (evict()) continue;
      Sequence* stalled = youngest_stalled();
      if (stalled == nullptr) return false;
      preempt(*stalled);
    }
  }
  return true;
}

bool Scheduler::has_room_to_start(const Sequence& sequence) const {
  for (int group = 0; group < pools_.num_groups(); ++group) {
    const int needed = num_blocks_to_start(group, sequence);
    const int num_free = pools_.pool(group).num_free();
    if (needed > num_free && needed > num_free + num_blocks_to_take(group, sequence)) return false;
  }
  return true;
}

/// From stalled ones and entries of the prompt cache, but for what it would share with one.
int Scheduler::num_blocks_to_take(int group, const Sequence& sequence) const {
  const int num_blocks = num_takeable_blocks(group);
  if (leading_sibling(sequence) != nullptr || !may_use_prompt_cache(sequence)) return num_blocks;
  return std::max(num_blocks - prompts_->num_shared(group, sequence.tokens, sequence.num_tokens() - 1), 0);
}

/// What it lacks itself, with the prompt of a sibling, and what the running ones still need.
int Scheduler::num_blocks_to_start(int group, const Sequence& sequence) const {
  int needed = num_missing_blocks(group, sequence);
  if (const Sequence* donor = leading_sibling(sequence)) {
    const int num_tokens = donor->num_shareable_with(sequence);
    if (donor->cache.can_resume_at(num_tokens)) needed -= donor->cache.num_shared(group, num_tokens);
  } else if (may_use_prompt_cache(sequence)) {
    needed -= prompts_->num_shared(group, sequence.tokens, sequence.num_tokens() - 1);
  }
  for (const auto& other : sequences_) {
    if (is_running(*other) && !other->active->stalled) needed += std::max(num_missing_blocks(group, *other), 0);
  }
  return needed;
}

/// With the prompt of a sibling, if one has it.
std::vector<cache::BlockCopy> Scheduler::start(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  const Sequence* donor = leading_sibling(sequence);
  if (donor == nullptr) return start_from_prompt_cache(sequence);
  const int num_tokens = donor->num_shareable_with(sequence);
  if (!donor->cache.can_resume_at(num_tokens)) return {};
  std::optional<cache::SequenceCache::Fork> fork = donor->cache.fork(num_tokens);
  if (!fork) return {};  // no block for its own end of the prompt
  sequence.cache = std::move(fork->cache);
  return std::move(fork->copies);
}

/// To the sequence that will be started next, if it has no other sibling to take the prompt from.
void Scheduler::hand_prompt_down() {
  Sequence* heir = next_waiting();
  if (heir == nullptr || leading_sibling(*heir) != nullptr) return;
  for (const auto& ended : sequences_) {
    if (ended->state != SequenceState::kEnded || ended->active != heir->active) continue;
    const int num_tokens = ended->num_shareable_with(*heir);
    if (num_tokens <= heir->num_computed() || !ended->cache.can_resume_at(num_tokens)) continue;
    heir->cache = std::move(ended->cache);
    heir->cache.truncate(num_tokens);
    heir->state = SequenceState::kRunning;
    heir->has_started = true;
  }
}

/// The running choice of the same request that has computed most of the prompt.
const Sequence* Scheduler::leading_sibling(const Sequence& sequence) const {
  if (sequence.request().num_choices == 1) return nullptr;
  const Sequence* leading = nullptr;
  for (const auto& other : sequences_) {
    if (other->active != sequence.active || other.get() == &sequence || !is_running(*other)) continue;
    if (leading == nullptr || other->num_computed() > leading->num_computed()) leading = other.get();
  }
  return leading;
}

/// False while a sibling computes the prompt for both, or somebody else the beginning of it.
bool Scheduler::may_start(const Sequence& sequence) const {
  if (waits_for_leader(sequence)) return false;
  const Sequence* sibling = leading_sibling(sequence);
  return sibling == nullptr || sibling->num_computed() >= sibling->num_common_tokens();
}

Sequence* Scheduler::next_waiting() const {
  Sequence* next = nullptr;
  for (const auto& sequence : sequences_) {
    if (!is_waiting(*sequence) || !sequence->can_run() || sequence->is_suspect()) continue;
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

/// What would be free without stalled ones and entries: blocks that these share with others would not.
int Scheduler::num_takeable_blocks(int group) const {
  const cache::BlockPool& pool = pools_.pool(group);
  std::unordered_map<cache::BlockId, int> num_holders;
  for (const auto& sequence : sequences_) {
    if (!is_running(*sequence) || !sequence->active->stalled) continue;
    for (const cache::BlockId block : sequence->cache.table(group)) {
      if (block != cache::kNoBlock) ++num_holders[block];
    }
  }
  for (cache::BlockId block = 0; prompts_ != nullptr && block < pool.num_blocks(); ++block) {
    if (const int num_entries = prompts_->num_holders(group, block); num_entries > 0) num_holders[block] += num_entries;
  }
  return static_cast<int>(
      std::ranges::count_if(num_holders, [&](const auto& held) { return pool.num_users(held.first) == held.second; }));
}

Sequence* Scheduler::youngest_after(const Sequence& sequence) const {
  for (const auto& other : sequences_ | std::views::reverse) {
    if (other->arrival <= sequence.arrival) break;
    if (is_running(*other)) return other.get();
  }
  return nullptr;
}

/// What it has may still be there when it is computed again.
void Scheduler::preempt(Sequence& sequence) {
  ++num_preemptions_;
  leave_in_prompt_cache(sequence);
  sequence.has_asked_disk = false;
  set_back(sequence);
}

void Scheduler::restart_all() {
  if (prompts_ != nullptr) prompts_->distrust();
  for (const auto& sequence : sequences_) {  // those that have ended, too: nobody may inherit from them
    if (is_running(*sequence)) sequence->state = SequenceState::kWaiting;
    sequence->cache.release();
    sequence->num_cached = 0;
  }
}

void Scheduler::remove_ended() {
  scheduled_.clear();
  hand_prompt_down();
  const auto has_failed = [](const auto& sequence) { return sequence->has_failed; };
  if (prompts_ != nullptr && std::ranges::any_of(sequences_, has_failed)) prompts_->distrust();  // nobody knows why
  for (const auto& sequence : sequences_) {
    if (sequence->state == SequenceState::kEnded) leave_in_prompt_cache(*sequence);
  }
  std::erase_if(sequences_, [](const auto& sequence) { return sequence->state == SequenceState::kEnded; });
  for (const auto& sequence : sequences_) {
    if (sequence->num_led > 0 && of_arrival(sequence->leader) == nullptr) follow_a_leader(*sequence);
  }
}

int Scheduler::budget_left() const {
  int budget = options_.step_tokens;
  for (const Scheduled& row : scheduled_) budget -= row.num_tokens;
  return budget;
}

}  // namespace redpoll::engine
