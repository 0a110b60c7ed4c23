// The scheduler's dealings with the prompt cache: what a sequence starts from, and what it leaves there.
#include <optional>
#include <span>
#include <utility>

#include "engine/scheduler.h"

namespace redpoll::engine {
namespace {

constexpr int kMostEvictedForASnapshot = 4;

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
  std::optional<cache::SequenceCache::Fork> fork = prompts_->take(sequence.tokens, sequence.num_tokens() - 1);
  if (!fork) return {};
  sequence.cache = std::move(fork->cache);
  if (!sequence.has_started) sequence.num_cached = sequence.num_computed();
  return std::move(fork->copies);
}

/// Its cache cannot go back to the end of the prompt when it has come to its own.
bool Scheduler::wants_snapshot(const Sequence& sequence) const {
  return may_use_prompt_cache(sequence) &&
         !pools_.can_go_back(sequence.num_prompt_tokens() + sequence.request().max_tokens);
}

/// For siblings to take over, or for a snapshot.
bool Scheduler::pauses_before_its_end(const Sequence& sequence) const {
  return sequence.request().num_choices > 1 || wants_snapshot(sequence);
}

/// Of a prompt that has paused one token before its end. Copies come after those of all that have started in this step:
/// they may go to blocks that the entries had from which these were forked.
void Scheduler::leave_snapshot(const Sequence& sequence) {
  const int num_tokens = sequence.num_common_tokens();
  if (!wants_snapshot(sequence) || sequence.num_computed() != num_tokens) return;
  if (num_tokens == 0 || prompts_->find(sequence.tokens, num_tokens) == num_tokens) return;
  std::optional<cache::SequenceCache::Fork> fork = sequence.cache.fork(num_tokens);
  for (int i = 0; !fork && i < kMostEvictedForASnapshot && evict(); ++i) fork = sequence.cache.fork(num_tokens);
  if (!fork) return;
  std::vector<cache::BlockCopy>& copies = scheduled_.back().copies;
  copies.insert(copies.end(), fork->copies.begin(), fork->copies.end());
  prompts_->insert(computed_tokens(sequence), std::move(fork->cache));
}

void Scheduler::leave_in_prompt_cache(Sequence& ended) {
  if (!may_use_prompt_cache(ended) || ended.has_failed || ended.num_computed() == 0) return;
  prompts_->insert(computed_tokens(ended), std::move(ended.cache));
}

}  // namespace redpoll::engine
