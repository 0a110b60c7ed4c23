// Scheduler: decides one thing: which sequences run in the next step, with how many tokens each. A pure function of
// its own state: it knows no model, no clock and no sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cache/cache_pools.h"
#include "cache/prompt_cache.h"
#include "engine/sequence.h"

namespace redpoll::engine {

/// Of a sequence whose prompt's logprobs are wanted: each takes a row of logits, as long as the vocabulary.
inline constexpr int kMaxScoredTokensPerStep = 64;

struct SchedulerOptions {
  int max_batch = 8;      // sequences in a step
  int step_tokens = 256;  // tokens in a step; at least max_batch
  /// 0: prompts are cut as the step leaves room. Else they come in whole chunks of so many tokens, less at their end,
  /// the last token on its own; what was generated comes token by token, also when it is computed again. A step must
  /// have room for two chunks and a token for each sequence.
  int prompt_chunk = 0;
  /// Of a prompt, between snapshots for the prompt cache, where caches cannot go back.
  int snapshot_tokens = 1024;
};

/// `num_tokens` more tokens of the sequence are to be computed; its cache has room for them. The copies are to be made
/// before anything is computed, those of a step in their order.
struct Scheduled {
  Sequence* sequence = nullptr;
  int num_tokens = 0;
  std::vector<cache::BlockCopy> copies = {};
};

/// Owns all sequences that have not ended. The rules, in this order:
/// - One token for each that is generating comes out of the budget before prompts share the rest, so that a long prompt
///   never holds them up. Of that rest the oldest prompt is sure of half; then those with the fewest tokens left come
///   first, waiting ones too, so that a short prompt is not held up either.
/// - Who lacks blocks takes them from those whose consumers have fallen behind; then it computes fewer tokens; if it
///   could compute none, it takes from the youngest. Who lost its blocks waits and is computed again later. So the
///   oldest that can run always moves on, as long as the pool can hold one sequence.
/// - Waiting ones start by priority, then by age, when all their tokens fit beside what the running ones still need.
/// - The choices of a request compute its prompt once: while one does, the others wait. One token before the prompt's
///   end it pauses, so that they take over what it has at that very moment, which is all that caches that cannot go
///   back allow. Later they share what is still there. One that has ended hands the prompt down if a sibling is next
///   and no other has it.
/// - A sequence whose consumer has fallen behind counts for nothing but the blocks it holds.
/// - With a prompt cache, who starts goes on from what others have left there, and who ends or is preempted leaves what
///   it has. Where caches cannot go back, prompts pause to leave snapshots: one token before their end, where their
///   stable part ends, where they part from what is there, and now and then. Entries give way to whoever lacks blocks,
///   before anybody is preempted.
/// - Who begins as an older one does that is still computing that beginning waits for it, and goes on from there.
class Scheduler {
 public:
  /// The pools, and the prompt cache if there is one, must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, cache::CachePools& pools, cache::PromptCache* prompts = nullptr)
      : options_(options), pools_(pools), prompts_(prompts) {}

  void add(std::unique_ptr<Sequence> sequence);
  /// What to run now; empty if nothing can. The sequences stay valid until remove_ended.
  const std::vector<Scheduled>& schedule();
  [[nodiscard]] const std::vector<Scheduled>& scheduled() const { return scheduled_; }
  /// Takes the blocks of all sequences; everything is to be computed again.
  void restart_all();
  /// Forgets sequences in state kEnded and frees their blocks.
  void remove_ended();

  /// Oldest first.
  [[nodiscard]] const std::vector<std::unique_ptr<Sequence>>& sequences() const { return sequences_; }
  [[nodiscard]] std::size_t num_preemptions() const { return num_preemptions_; }

  /// Those that wait and could run, in the order in which they would start.
  [[nodiscard]] std::vector<Sequence*> waiting() const;
  // Of a waiting sequence.
  [[nodiscard]] bool may_use_prompt_cache(const Sequence& sequence) const;
  /// Nobody computes its beginning for it.
  [[nodiscard]] bool may_start(const Sequence& sequence) const;
  /// All its tokens would fit beside what the running ones still need.
  [[nodiscard]] bool has_room_to_start(const Sequence& sequence) const;

 private:
  bool schedule_suspect();
  void schedule_running();
  void share_among_prompts(std::vector<Scheduled>& rows, int budget) const;
  [[nodiscard]] std::vector<int> tokens_of_next_waiting(int num_sequences) const;
  void schedule_waiting();
  void spend_rest();
  [[nodiscard]] int exact_tokens(const Sequence& sequence, int budget) const;
  [[nodiscard]] int wanted_tokens(const Sequence& sequence, int budget) const;
  [[nodiscard]] int make_room(Sequence& sequence, int num_tokens);
  [[nodiscard]] bool make_room_to_start(const Sequence& sequence);
  [[nodiscard]] std::vector<cache::BlockCopy> start(Sequence& sequence);
  void hand_prompt_down();
  [[nodiscard]] std::vector<cache::BlockCopy> start_from_prompt_cache(Sequence& sequence);
  void leave_snapshot(const Sequence& sequence);
  void leave_in_prompt_cache(Sequence& sequence);
  [[nodiscard]] bool wants_snapshot(const Sequence& sequence) const;
  [[nodiscard]] bool pauses_at(const Sequence& sequence, int num_tokens) const;
  [[nodiscard]] int next_pause(const Sequence& sequence) const;
  [[nodiscard]] int num_alike(const Sequence& leader, const Sequence& sequence) const;
  void note_branch(Sequence& sequence) const;
  void follow_a_leader(Sequence& sequence) const;
  [[nodiscard]] bool waits_for_leader(const Sequence& sequence) const;
  [[nodiscard]] Sequence* of_arrival(std::uint64_t arrival) const;
  [[nodiscard]] bool evict() { return prompts_ != nullptr && prompts_->evict(); }
  [[nodiscard]] const Sequence* leading_sibling(const Sequence& sequence) const;
  [[nodiscard]] Sequence* next_waiting() const;
  [[nodiscard]] Sequence* youngest_stalled() const;
  [[nodiscard]] int num_blocks_to_start(int group, const Sequence& sequence) const;
  [[nodiscard]] int num_takeable_blocks(int group) const;
  [[nodiscard]] int num_blocks_to_take(int group, const Sequence& sequence) const;
  [[nodiscard]] Sequence* youngest_after(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  [[nodiscard]] int budget_left() const;

  SchedulerOptions options_;
  cache::CachePools& pools_;
  cache::PromptCache* prompts_;                       // nullptr: none
  std::vector<std::unique_ptr<Sequence>> sequences_;  // by arrival
  std::vector<Scheduled> scheduled_;
  std::uint64_t next_arrival_ = 1;
  std::size_t num_preemptions_ = 0;
};

}  // namespace redpoll::engine
