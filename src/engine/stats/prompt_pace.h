// PromptPace: how long it takes to compute tokens of a prompt, as far as the last steps tell. Knows steps, no models.
#pragma once

#include <chrono>

#include "engine/stats/step_statistics.h"

namespace redpoll::engine {

/// Before a step has computed 32 tokens of prompts or more it takes 250 tokens a second for granted: slow for most
/// models and machines, so that what depends on it errs on the side of patience.
class PromptPace {
 public:
  void add(const StepRecord& step);
  [[nodiscard]] std::chrono::nanoseconds time_for(int num_tokens) const;

 private:
  double tokens_ = 0;
  double seconds_ = 0;  // that these took
};

}  // namespace redpoll::engine
