// EngineLoop: everything that lives on the engine thread: the model, its cache, the sequences, and the steps that bring
// them forward.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/block_pool.h"
#include "engine/batch.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/memory_budget.h"
#include "engine/model_runner.h"
#include "engine/scheduler.h"
#include "engine/step_profile.h"

namespace redpoll::engine {

/// Made, used and destroyed on the engine thread.
class EngineLoop {
 public:
  /// Loads the model and gives it memory; then `mailbox` is open.
  [[nodiscard]] static Result<std::unique_ptr<EngineLoop>> load(const EngineOptions& options, const ModelLoader& loader,
                                                                std::shared_ptr<Mailbox> mailbox, const Clock& clock);

  /// Steps until it is told to stop or three steps in a row have failed. Every request has its last event then.
  void run();

 private:
  EngineLoop(const EngineOptions& options, const MemoryPlan& plan, LoadedModel loaded, std::shared_ptr<Mailbox> mailbox,
             const Clock& clock);

  void step();
  void take_commands();
  void deliver(const std::vector<Scheduled>& scheduled, std::span<const float> logits, Clock::TimePoint started_at);
  void admit(Submission submission);
  void cancel(RequestId id);
  void finish_round();
  void publish();
  void recover_from(const std::string& what);
  void shut_down();
  void mark(StepPhase phase) const {
    if (options_.profile) options_.profile->mark(phase);
  }

  EngineOptions options_;
  MemoryPlan plan_;
  std::shared_ptr<Mailbox> mailbox_;
  const Clock& clock_;
  ModelRunner runner_;
  cache::BlockPool pool_;
  Scheduler scheduler_;
  Delivery delivery_;
  StepBatch batch_;

  bool is_idle_ = true;
  bool is_stopping_ = false;
  std::optional<std::string> failure_;  // why the engine cannot go on
  int num_failures_in_a_row_ = 0;
  EngineStats stats_;  // the parts that do not change, and the counters
};

}  // namespace redpoll::engine
