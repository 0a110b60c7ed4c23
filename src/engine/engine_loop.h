// EngineLoop: everything that lives on the engine thread: the model, its cache, the sequences, and the steps that bring
// them forward.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/cache_pools.h"
#include "engine/batch.h"
#include "engine/delivery.h"
#include "engine/disk/disk_traffic.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/memory_budget.h"
#include "engine/model_runner.h"
#include "engine/scheduler.h"
#include "engine/stats/step_profile.h"

namespace redpoll::engine {

/// Made, used and destroyed on the engine thread.
class EngineLoop {
 public:
  /// Loads the model and gives it memory; then `mailbox` is open.
  [[nodiscard]] static Result<std::unique_ptr<EngineLoop>> load(const EngineOptions& options, const ModelLoader& loader,
                                                                std::shared_ptr<Mailbox> mailbox, const Clock& clock);

  /// Steps until it is told to stop or three steps in a row have failed. Every request has its last event then. No
  /// exception leaves it: whatever is thrown, each request goes on or its client is told.
  void run() noexcept;

 private:
  static constexpr int kMaxFailuresInARow = 3;
  /// Consumers whose on_ready has thrown; when the engine ends, they are not waited for longer than a second.
  static constexpr std::chrono::milliseconds kBeforeTellingAgain{10};

  EngineLoop(const EngineOptions& options, const MemoryPlan& plan, LoadedModel loaded, std::shared_ptr<Mailbox> mailbox,
             const Clock& clock);

  [[nodiscard]] Status open_disk_tier(const std::string& identity);
  void open_mailbox();
  void restore_from_disk();
  void step();
  void take_commands();
  void deliver(const std::vector<Scheduled>& scheduled, const StepOutput& output, Clock::TimePoint started_at);
  void admit(Submission submission) noexcept;
  void add_request(Submission submission);
  [[nodiscard]] CacheExplanation explain(const CacheQuery& query);
  void answer_questions();
  void cancel(const Cancellation& cancellation);
  void check_integrity() const;
  void look_after_consumers();
  void finish_round();
  void publish();
  void note_failure();
  void recover_from(const std::string& what);
  void give_up(std::string why);
  void shut_down() noexcept;
  void end_all() noexcept;
  [[nodiscard]] static std::string message_of(const std::exception_ptr& exception);
  void mark(StepPhase phase) const {
    if (options_.profile) options_.profile->mark(phase);
  }

  EngineOptions options_;
  MemoryPlan plan_;
  std::shared_ptr<Mailbox> mailbox_;
  const Clock& clock_;
  ModelRunner runner_;
  cache::CachePools pools_;
  std::optional<cache::PromptCache> prompts_;
  Scheduler scheduler_;
  std::unique_ptr<DiskTraffic> disk_;  // nullptr: there is no disk tier
  Delivery delivery_;
  StepBatch batch_;

  Commands commands_;                // taken, and not all carried out
  std::size_t num_submissions_ = 0;  // of them, carried out
  bool is_idle_ = true;
  bool all_are_told_ = true;
  bool is_stopping_ = false;
  bool has_failed_ = false;
  std::string failure_;  // why the engine cannot go on
  int num_failures_in_a_row_ = 0;
  EngineStats stats_;  // the parts that do not change, and the counters
};

}  // namespace redpoll::engine
