#include "engine/stats/step_profile.h"

#include <utility>

namespace redpoll::engine {

std::string_view phase_name(StepPhase phase) {
  switch (phase) {
    case StepPhase::kIdle: return "idle";
    case StepPhase::kCommands: return "commands";
    case StepPhase::kSchedule: return "schedule";
    case StepPhase::kBatch: return "batch arrays";
    case StepPhase::kForward: return "forward pass";
    case StepPhase::kSample: return "sample";
    case StepPhase::kSend: return "send events";
    case StepPhase::kPublish: break;
  }
  return "books and statistics";
}

void StepProfile::mark(StepPhase phase) {
  const ProfileClock::time_point now = ProfileClock::now();
  const std::scoped_lock lock(mutex_);
  totals_.phases[static_cast<std::size_t>(phase)] += now - std::exchange(last_mark_, now);
  if (phase != StepPhase::kForward) return;
  ++totals_.steps;
  kernels::merge_operations(totals_.operations, kernels_->operations());
  kernels_->clear();
}

StepTotals StepProfile::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(totals_, {});
}

}  // namespace redpoll::engine
