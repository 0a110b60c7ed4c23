// The scheduler's dealings with the prompt cache: what a sequence starts from, and what it leaves there.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "engine/scheduler.h"

namespace redpoll::engine {
namespace {

constexpr int kMostEvictedForASnapshot = 4;
/// Fewer tokens are computed as fast as they are waited for.
constexpr int kLeastWaitedFor = 16;

/// Those that the sequence's cache holds.
std::span<const TokenId> computed_tokens(const Sequence& sequence) {
  return std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.num_computed()));
}

}  // namespace

bool Scheduler::may_use_prompt_cache(const Sequence& sequence) const {
  return prompts_ != nullptr && !sequence.scores_prompt() && !sequence.is_suspect();
}

/// From the longest beginning that is there.
std::vector<cache::BlockCopy> Scheduler::start_from_prompt_cache(Sequence& sequence) {
  if (!may_use_prompt_cache(sequence)) return {};
  note_branch(sequence);
  std::optional<cache::SequenceCache::Fork> fork = prompts_->take(sequence.tokens, sequence.num_tokens() - 1);
  if (!fork) return {};
  sequence.cache = std::move(fork->cache);
  if (!sequence.has_started) sequence.num_cached = sequence.num_computed();
  return std::move(fork->copies);
}

/// Where others have had the same tokens before and left nothing to go on from, the next ones shall find something.
void Scheduler::note_branch(Sequence& sequence) const {
  if (!wants_snapshot(sequence)) return;
  const int common = std::min(prompts_->num_common(sequence.tokens), sequence.num_common_tokens());
  if (common >= kLeastWaitedFor) sequence.branches.insert(common);
}

/// Its cache cannot go back to the end of the prompt when it has come to its own.
bool Scheduler::wants_snapshot(const Sequence& sequence) const {
  return may_use_prompt_cache(sequence) &&
         !pools_.can_go_back(sequence.num_prompt_tokens() + sequence.request().max_tokens);
}

/// To leave what it has: at the end of what its siblings take over, and of what others do.
bool Scheduler::pauses_at(const Sequence& sequence, int num_tokens) const {
  if (num_tokens <= 0 || num_tokens > sequence.num_common_tokens()) return false;
  if (sequence.branches.contains(num_tokens)) return true;
  const bool at_end = num_tokens == sequence.num_common_tokens();
  if (!wants_snapshot(sequence)) return at_end && sequence.request().num_choices > 1;
  return at_end || num_tokens == sequence.request().num_stable_tokens || num_tokens % options_.snapshot_tokens == 0;
}

/// The first place after what it has computed; far off if there is none.
int Scheduler::next_pause(const Sequence& sequence) const {
  const int computed = sequence.num_computed();
  int next = std::numeric_limits<int>::max();
  const auto consider = [&](int num_tokens) {
    if (num_tokens > computed && num_tokens < next && pauses_at(sequence, num_tokens)) next = num_tokens;
  };
  consider(sequence.num_common_tokens());
  consider(sequence.request().num_stable_tokens);
  consider((computed / options_.snapshot_tokens + 1) * options_.snapshot_tokens);
  for (const int branch : sequence.branches) consider(branch);
  return next;
}

/// Of a prompt that has paused. Copies come after those of all that have started in this step: they may go to blocks
/// that the entries had from which these were forked.
void Scheduler::leave_snapshot(const Sequence& sequence) {
  const int num_tokens = sequence.num_computed();
  if (!may_use_prompt_cache(sequence) || !pauses_at(sequence, num_tokens)) return;
  if (prompts_->find(sequence.tokens, num_tokens) == num_tokens) return;
  std::optional<cache::SequenceCache::Fork> fork = sequence.cache.fork(num_tokens);
  for (int i = 0; !fork && i < kMostEvictedForASnapshot && evict(); ++i) fork = sequence.cache.fork(num_tokens);
  if (!fork) return;
  std::vector<cache::BlockCopy>& copies = scheduled_.back().copies;
  copies.insert(copies.end(), fork->copies.begin(), fork->copies.end());
  prompts_->insert(computed_tokens(sequence), std::move(fork->cache));
}

Sequence* Scheduler::of_arrival(std::uint64_t arrival) const {
  const auto found = std::ranges::find(sequences_, arrival, [](const auto& sequence) { return sequence->arrival; });
  return found == sequences_.end() ? nullptr : found->get();
}

/// How many tokens of its prompt the leader has in common with the sequence that both must compute.
int Scheduler::num_alike(const Sequence& leader, const Sequence& sequence) const {
  const auto most = static_cast<std::size_t>(std::min(leader.num_common_tokens(), sequence.num_tokens() - 1));
  const auto theirs = std::span(leader.tokens).first(most);
  return static_cast<int>(std::ranges::mismatch(theirs, sequence.tokens).in1 - theirs.begin());
}

/// Of those that are before it, the one that has most in common with it, if that is more than what it need not wait
/// for.
void Scheduler::follow_a_leader(Sequence& sequence) const {
  sequence.num_led = 0;
  if (!may_use_prompt_cache(sequence)) return;
  Sequence* leader = nullptr;
  int alike = prompts_->find(sequence.tokens, sequence.num_tokens() - 1) + kLeastWaitedFor;
  for (const auto& other : sequences_) {
    if (other->active == sequence.active || other->state == SequenceState::kEnded) continue;
    if (!may_use_prompt_cache(*other) || other->arrival >= sequence.arrival) continue;
    const int num_tokens = num_alike(*other, sequence);
    if (num_tokens <= std::max(alike, other->num_computed())) continue;
    leader = other.get();
    alike = num_tokens;
  }
  if (leader == nullptr) return;
  sequence.leader = leader->arrival;
  sequence.num_led = alike;
  leader->branches.insert(alike);
}

/// Only for one that runs, or that waits for such a one; until the step after the one in which it pauses. Leaders are
/// older, so nobody waits in a circle.
bool Scheduler::waits_for_leader(const Sequence& sequence) const {
  if (sequence.num_led == 0 || !may_use_prompt_cache(sequence)) return false;
  const Sequence* leader = of_arrival(sequence.leader);
  if (leader == nullptr || !leader->can_run() || !may_use_prompt_cache(*leader)) return false;
  if (leader->state == SequenceState::kWaiting) return waits_for_leader(*leader);
  return leader->num_computed() <= sequence.num_led;
}

/// Of a sequence that has ended or is set back: its cache is empty then.
void Scheduler::leave_in_prompt_cache(Sequence& sequence) {
  if (!may_use_prompt_cache(sequence) || sequence.has_failed || sequence.num_computed() == 0) return;
  const auto tokens = computed_tokens(sequence);
  prompts_->insert(tokens, std::exchange(sequence.cache, cache::SequenceCache(pools_)));
}

}  // namespace redpoll::engine
