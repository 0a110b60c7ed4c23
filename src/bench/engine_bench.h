// `redpoll bench`: how fast the engine computes prompts and generates, without HTTP and text in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bench/conditions.h"
#include "bench/statistics.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::bench {

struct EngineBenchOptions {
  std::string model;                             // see locate_model
  server::EngineSettings engine;                 // max_batch and max_queue follow from `batches`
  std::vector<int> prefills = {128, 512, 2048};  // tokens of a prompt; empty: measure none
  std::vector<int> depths = {0, 2048};           // tokens before those that are generated
  std::vector<int> batches = {1, 2, 4, 8, 16};   // streams; empty: measure no decode
  int decode_tokens = 64;                        // each stream generates in one repetition
  int repetitions = 3;
  std::uint64_t seed = 1;  // of the prompts
};

/// Bytes read each second if every step reads each weight once, and the keys and values of every row once.
struct Bandwidth {
  double weights_gb_per_s = 0;  // 10^9 bytes
  double with_kv_gb_per_s = 0;
};

/// One prompt alone, up to its first generated token.
struct PrefillFigure {
  int tokens = 0;
  Spread tokens_per_s;
  double median_ms = 0;
  Bandwidth bandwidth;
};

/// `batch` streams at once; tokens of all of them together.
struct DecodeFigure {
  int depth = 0;
  int batch = 0;
  Spread tokens_per_s;
  double median_step_ms = 0;
  Bandwidth bandwidth;
};

struct EngineBenchReport {
  Conditions conditions;
  std::vector<PrefillFigure> prefill;
  std::vector<DecodeFigure> decode;
};

/// Loads the model and measures. Progress gets a line before each figure.
[[nodiscard]] Result<EngineBenchReport> run_engine_bench(EngineBenchOptions options, const server::Progress& progress);
/// The same on a model that is loaded: conditions and figures. kInvalidArgument, before anything is measured, when a
/// prompt does not fit the context or the streams do not fit the cache together.
[[nodiscard]] Result<EngineBenchReport> measure_engine(const server::ServedModel& model,
                                                       const EngineBenchOptions& options,
                                                       const server::Progress& progress);

[[nodiscard]] std::string to_text(const EngineBenchReport& report);
[[nodiscard]] json::object to_json(const EngineBenchReport& report);

namespace internal {
constexpr int kWarmUpPrompt = 64;  // tokens

/// For each stream, so that all still generate while `options.repetitions` are measured.
[[nodiscard]] int tokens_to_generate(const EngineBenchOptions& options, int depth, int batch);
/// kInvalidArgument if a prompt does not fit the context or streams do not fit the cache together.
[[nodiscard]] Status check_room(const EngineBenchOptions& options, const engine::EngineStats& stats);
}  // namespace internal

}  // namespace redpoll::bench
