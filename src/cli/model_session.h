// A loaded model for the verbs that answer without a server, and one answer of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "server/generation.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::cli {

/// Finds and loads a model for one request at a time; progress goes to standard error.
[[nodiscard]] Result<std::shared_ptr<server::ServedModel>> load_model(const std::string& model,
                                                                      server::EngineSettings settings);

struct LocalAnswer {
  api::Answer answer;  // with one choice
  bool interrupted = false;
};

/// Runs one single-choice generation on the calling thread, handing each piece of text to `on_text` as it comes. Ctrl-C
/// ends it early; what was said until then is the answer.
[[nodiscard]] Result<LocalAnswer> generate_answer(server::ServedModel& model, server::PreparedGeneration prepared,
                                                  const std::function<void(std::string_view)>& on_text);

}  // namespace redpoll::cli
