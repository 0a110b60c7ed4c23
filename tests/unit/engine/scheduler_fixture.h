// What the scheduler's tests share: a scheduler with a pool, sequences, and steps without a model.
#pragma once

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/scheduler.h"

namespace redpoll::engine {

inline constexpr int kBlockTokens = 4;

struct SequenceOptions {
  int prompt_tokens = 1;
  int max_tokens = 100;
  int priority = 0;
  bool prompt_logprobs = false;
  int num_choices = 1;
  int shared_tokens = 0;  // at the beginning of the prompt, as all others have them
  int stable_tokens = 0;
};

class SchedulerTest : public testing::Test {
 protected:
  void make(const SchedulerOptions& options, int num_blocks) {
    make(options, {{.window = 0, .num_blocks = num_blocks}});
  }
  void make(const SchedulerOptions& options, const std::vector<cache::GroupPool>& groups) {
    scheduler_.reset();
    prompts_.reset();
    pools_ = std::make_unique<cache::CachePools>(kBlockTokens, groups);
    if (prompt_cache_bytes_ > 0) {
      prompts_.emplace(*pools_, std::vector<std::size_t>(groups.size(), 1), prompt_cache_bytes_);
    }
    scheduler_ = std::make_unique<Scheduler>(options, *pools_, prompts_ ? &*prompts_ : nullptr);
  }

  /// The first choice; its siblings follow it in sequences().
  Sequence* add(const SequenceOptions& options) {
    auto active = std::make_shared<ActiveRequest>();
    ++num_requests_;
    for (int i = 0; i < options.prompt_tokens; ++i) {
      active->request.prompt.push_back(i < options.shared_tokens ? i : 1000 * num_requests_ + i);
    }
    active->request.max_tokens = options.max_tokens;
    active->request.priority = options.priority;
    active->request.prompt_logprobs = options.prompt_logprobs;
    active->request.num_choices = options.num_choices;
    active->request.num_stable_tokens = options.stable_tokens;
    for (int choice = 0; choice < options.num_choices; ++choice) {
      scheduler_->add(std::make_unique<Sequence>(active, choice, cache::SequenceCache(*pools_)));
    }
    return sequence(scheduler_->sequences().size() - static_cast<std::size_t>(options.num_choices));
  }
  Sequence* sequence(std::size_t index) { return scheduler_->sequences()[index].get(); }

  /// Schedules a step and does what a step does; what ran, by sequence.
  std::vector<std::pair<Sequence*, int>> step() {
    std::vector<std::pair<Sequence*, int>> ran;
    for (const auto& [sequence, num_tokens, copies] : scheduler_->schedule()) {
      ran.emplace_back(sequence, num_tokens);
      sequence->cache.advance(num_tokens);
      if (sequence->num_uncomputed() > 0) continue;
      if (sequence->request().max_tokens > 0) sequence->append(2);
      if (sequence->num_generated() >= sequence->request().max_tokens) sequence->state = SequenceState::kEnded;
    }
    scheduler_->remove_ended();
    return ran;
  }

  std::unique_ptr<cache::CachePools> pools_;
  std::optional<cache::PromptCache> prompts_;
  std::size_t prompt_cache_bytes_ = 0;  // a block takes one; set before `make`
  int num_requests_ = 0;
  std::unique_ptr<Scheduler> scheduler_;  // after the pools, in which its sequences hold blocks
};

}  // namespace redpoll::engine
