// StepStatistics: how fast the engine has been over the last seconds. Knows steps, not sequences.
#pragma once

#include <deque>

#include "base/clock.h"

namespace redpoll::engine {

struct StepRecord {
  Clock::TimePoint started_at;
  Clock::TimePoint ended_at;
  int prompt_tokens = 0;     // computed
  int generated_tokens = 0;  // chosen
};

struct StepRates {
  double step_ms_p50 = 0;
  double tokens_per_s = 0;
  double prefill_tokens_per_s = 0;
};

/// Not safe to share between threads without a lock.
class StepStatistics {
 public:
  void add(const StepRecord& record);
  /// Over the ten seconds before `now`, or since the first step in them that is remembered; zeros when there was none.
  [[nodiscard]] StepRates rates(Clock::TimePoint now) const;

 private:
  std::deque<StepRecord> records_;  // by time
};

}  // namespace redpoll::engine
