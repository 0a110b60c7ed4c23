// ServedModel: one loaded model with its text side: what a request needs besides the request itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/token.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "server/model_locator.h"
#include "server/options.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace redpoll::server {

/// Constant once loaded, but for the engine, whose functions any thread may call. Tests fill it by hand.
struct ServedModel {
  std::string id;                  // what `model` in requests must say
  std::string system_fingerprint;  // changes with the weights and with this program
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // nullptr: the model has none
  std::vector<TokenId> tool_markup_ids;                     // special tokens by which it writes tool calls
  checkpoint::GenerationDefaults generation;
  std::vector<TokenId> stop_ids;  // any of them ends an answer
  int vocab_size = 0;
  engine::ContextLimit context;
  bool can_go_back = true;  // its caches can be resumed anywhere: no layer has a window or a state
  std::unique_ptr<engine::Engine> engine;
};

/// What an engine that is run so is told, but for where to report.
[[nodiscard]] engine::EngineOptions engine_options(const EngineSettings& settings);

struct LoadOptions {
  std::string alias;  // the served id; empty: the location's name
  EngineSettings engine;
  std::shared_ptr<engine::StepProfile> profile = nullptr;  // set: told where the engine's time goes
};

/// A line for each step that takes time, on the calling thread.
using Progress = std::function<void(std::string_view line)>;

/// kCorruptFile for a folder without a tokenizer.
[[nodiscard]] Status check_tokenizer(const checkpoint::Checkpoint& checkpoint);

/// Opens the checkpoint, builds tokenizer and template, and returns when the engine can serve. What was mapped only to
/// build the model is released.
[[nodiscard]] Result<std::shared_ptr<ServedModel>> load_served_model(const ModelLocation& location,
                                                                     const LoadOptions& options,
                                                                     const Progress& progress);

}  // namespace redpoll::server
