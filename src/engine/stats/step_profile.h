// StepProfile: where the engine thread's time goes: the phases of a step one after the other, so that they sum to the
// whole, and the operations of the forward pass. Plain data; knows no device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "kernels/profile.h"

namespace redpoll::engine {

enum class StepPhase {
  kIdle,      // waiting for something to do: not part of a step
  kCommands,  // taking requests and cancellations
  kSchedule,
  kBatch,    // the arrays of the batch
  kForward,  // the model, down to logits in memory
  kSample,   // choosing tokens, making events
  kSend,     // events to their queues
  kPublish,  // books and statistics
};
inline constexpr std::size_t kNumStepPhases = 8;
[[nodiscard]] std::string_view phase_name(StepPhase phase);

struct StepTotals {
  std::uint64_t steps = 0;
  std::array<std::chrono::nanoseconds, kNumStepPhases> phases{};
  kernels::OperationTable operations;  // parts of StepPhase::kForward

  [[nodiscard]] std::chrono::nanoseconds of(StepPhase phase) const { return phases[static_cast<std::size_t>(phase)]; }
};

class StepProfile {
 public:
  /// On the engine thread: the time since the last call, or since the start, went into `phase`.
  void mark(StepPhase phase);
  /// What has come since the last call, up to the last phase that is over; from any thread.
  [[nodiscard]] StepTotals take();
  /// For the kernels that the engine runs.
  [[nodiscard]] const std::shared_ptr<kernels::KernelProfile>& kernels() const { return kernels_; }

 private:
  using ProfileClock = std::chrono::steady_clock;

  std::shared_ptr<kernels::KernelProfile> kernels_ = std::make_shared<kernels::KernelProfile>();
  ProfileClock::time_point last_mark_ = ProfileClock::now();  // engine thread
  std::mutex mutex_;
  StepTotals totals_;
};

}  // namespace redpoll::engine
