#include "engine/stats/step_statistics.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace redpoll::engine {
namespace {

constexpr std::chrono::seconds kWindow{10};
constexpr std::size_t kMaxRecords = 2048;  // so that asking stays cheap when steps are short

}  // namespace

void StepStatistics::add(const StepRecord& record) {
  while (!records_.empty() && records_.front().ended_at < record.ended_at - kWindow) records_.pop_front();
  if (records_.size() == kMaxRecords) records_.pop_front();
  records_.push_back(record);
}

StepRates StepStatistics::rates(Clock::TimePoint now) const {
  const auto recent =
      std::ranges::find_if(records_, [&](const auto& record) { return record.ended_at >= now - kWindow; });
  if (recent == records_.end()) return {};

  std::vector<double> durations;
  double prompt_tokens = 0;
  double generated_tokens = 0;
  for (auto record = recent; record != records_.end(); ++record) {
    durations.push_back(milliseconds_between(record->started_at, record->ended_at));
    prompt_tokens += record->prompt_tokens;
    generated_tokens += record->generated_tokens;
  }
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  const double seconds = std::max(milliseconds_between(recent->started_at, now) / 1000, 1e-3);
  return {.step_ms_p50 = *middle,
          .tokens_per_s = generated_tokens / seconds,
          .prefill_tokens_per_s = prompt_tokens / seconds};
}

}  // namespace redpoll::engine
