#include "cli/model_session.h"

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "cli/interrupt.h"
#include "server/model_locator.h"

namespace redpoll::cli {
namespace {

constexpr std::chrono::milliseconds kInterruptPoll{50};  // a signal handler cannot notify a condition

// Lets the engine's thread wake the one that waits for it.
class Wakeup {
 public:
  void notify() {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    condition_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, kInterruptPoll, [&] { return ready_; });
    ready_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool ready_ = false;
};

}  // namespace

Result<std::shared_ptr<server::ServedModel>> load_model(const std::string& model, server::EngineSettings settings) {
  settings.max_batch = 1;
  settings.max_queue = 1;
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(model, server::ModelPlaces::from_environment()));
  return server::load_served_model(location, {.alias = {}, .engine = settings},
                                   [](std::string_view line) { std::cerr << printable(line) << '\n'; });
}

Result<LocalAnswer> generate_answer(server::ServedModel& model, server::PreparedGeneration prepared,
                                    const std::function<void(std::string_view)>& on_text) {
  const InterruptGuard guard;
  const auto wakeup = std::make_shared<Wakeup>();
  ASSIGN_OR_RETURN(const std::unique_ptr<server::Generation> generation,
                   server::Generation::start(model, std::move(prepared), "local", [wakeup] { wakeup->notify(); }));
  LocalAnswer local;
  api::Answer& answer = local.answer;
  answer.choices.resize(1);
  answer.prompt_token_ids.push_back(generation->prompt_of(0));
  while (!generation->done() && !local.interrupted) {
    ASSIGN_OR_RETURN(std::vector<server::GenerationOutput> outputs, generation->poll());
    if (outputs.empty()) wakeup->wait();
    for (server::GenerationOutput& output : outputs) {
      if (const auto* delta = std::get_if<api::ChoiceDelta>(&output)) on_text(delta->text);
      server::add_to_answer(answer, std::move(output));
    }
    local.interrupted = InterruptGuard::interrupted();
  }
  local.interrupted = local.interrupted && !generation->done();
  answer.usage = generation->usage();
  answer.timings = generation->timings();
  return local;
}

}  // namespace redpoll::cli
