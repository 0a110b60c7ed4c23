// `redpoll bench --profile`: where the time of a step goes, by operation, against what the machine can do at best.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bench/conditions.h"
#include "bench/engine_bench.h"
#include "bench/roofline.h"
#include "engine/stats/step_profile.h"

namespace redpoll::bench {

/// An operation, or a part of the step that is none; means of a step.
struct ProfileRow {
  std::string name;
  std::string shape;  // empty where there is none
  double calls = 0;   // NaN, as the next four, for what is no operation
  double ms = 0;
  double gb_per_s = 0;
  double gop_per_s = 0;
  /// The time that its bytes or its arithmetic take at least on this machine, whichever is more, over the time that it
  /// took. Over 1 when its bytes were in a cache.
  double roofline = 0;
};

/// The rows sum to the step.
struct StepFigure {
  std::string what;  // "decode at depth 512, batch 8"
  double steps = 0;
  double step_ms = 0;
  std::vector<ProfileRow> rows;  // operations by time, then the rest of the forward pass and of the step
};

struct ProfileReport {
  Conditions conditions;
  Roofline roofline;
  std::vector<StepFigure> figures;
};

/// One figure for each prefill of `options`, and for each batch at each depth. kUnsupported where operations only build
/// a graph, as on a GPU, so that timing them means nothing.
[[nodiscard]] Result<ProfileReport> run_profile_bench(EngineBenchOptions options, const server::Progress& progress);
/// The same on a model that was loaded with `profile`.
[[nodiscard]] Result<std::vector<StepFigure>> measure_steps(const server::ServedModel& model,
                                                            engine::StepProfile& profile,
                                                            const EngineBenchOptions& options, const Roofline& roofline,
                                                            const server::Progress& progress);

[[nodiscard]] std::string to_text(const ProfileReport& report);
[[nodiscard]] json::object to_json(const ProfileReport& report);

namespace internal {
[[nodiscard]] StepFigure break_down(std::string what, const engine::StepTotals& totals, const Roofline& roofline);
}  // namespace internal

}  // namespace redpoll::bench
