// A loaded model for the verbs that answer without a server, and the loop that prints what it says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "server/generation.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::cli {

/// Finds and loads a model for one request at a time; progress goes to standard error.
[[nodiscard]] Result<std::shared_ptr<server::ServedModel>> load_model(const std::string& model,
                                                                      server::EngineSettings settings);

/// While it lives, Ctrl-C sets `interrupted` instead of ending the process; a second one ends it.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  [[nodiscard]] static bool interrupted();
};

/// Runs one single-choice generation, handing each piece of text to `on_text` as it comes; Ctrl-C ends it early.
[[nodiscard]] Result<api::Answer> generate_answer(server::ServedModel& model, server::PreparedGeneration prepared,
                                                  const std::function<void(std::string_view)>& on_text);

}  // namespace redpoll::cli
