// Conditions: everything that the figures of a benchmark depend on. Printed before them, since figures without them
// mean nothing a week later.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/machine.h"
#include "server/served_model.h"

namespace redpoll::bench {

/// A condition with its name as people read it and as JSON has it.
struct Condition {
  std::string label;
  std::string key;
  json::value value;
};

/// In the order in which they are printed.
using Conditions = std::vector<Condition>;

/// Date, version and machine.
[[nodiscard]] Conditions describe_here(const Machine& machine);
/// Device, kernel set, threads, weights, context, step size: of a model that this process runs.
[[nodiscard]] Conditions describe_engine(const server::ServedModel& model, const server::EngineSettings& settings);

/// "label  value", a line each.
[[nodiscard]] std::string to_text(const Conditions& conditions);
[[nodiscard]] json::object to_json(const Conditions& conditions);

/// Bytes of the states of a sequence, of whatever length.
[[nodiscard]] double state_bytes(const engine::EngineStats& stats);
/// Bytes of K and V that one token takes in all layers.
[[nodiscard]] double kv_bytes_per_token(const engine::EngineStats& stats);
/// Bytes of K and V that the last `num_tokens` of `context` tokens of a sequence see, and of its states.
[[nodiscard]] double kv_bytes_read(const engine::EngineStats& stats, double context, int num_tokens);

namespace internal {
/// "2026-11-29T18:30:00Z"
[[nodiscard]] std::string utc_time(std::chrono::system_clock::time_point time);
}  // namespace internal

}  // namespace redpoll::bench
