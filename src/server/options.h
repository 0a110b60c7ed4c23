// ServerOptions: everything that `redpoll serve` can be told. Plain data, filled by the command line or by tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "kernels/kernel_options.h"
#include "text/volatile_lines.h"

namespace redpoll::server {

/// What a request does not say itself. Absent values fall back to the model's generation_config.json.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int> max_tokens;  // absent: as many as the context leaves
};

inline constexpr double kPromptCacheGb = 2;
inline constexpr double kSsdCacheMaxGb = 32;

/// How a model is run.
struct EngineSettings {
  int max_batch = 8;
  int max_queue = 64;
  int context_length = 0;       // tokens; 0: the model's, as memory allows
  double memory_budget_gb = 0;  // weights, cache and a step, in units of 2^30 bytes; 0: 75 % of RAM
  std::optional<double> prompt_cache_gb =
      std::nullopt;            // of that, for prompts that may come again; 0: none; absent: kPromptCacheGb
  std::string ssd_cache = {};  // a folder for what the prompt cache gives up; empty: none
  std::optional<double> ssd_cache_max_gb = std::nullopt;  // that its files may take; absent: kSsdCacheMaxGb
  std::optional<bool> ssd_cache_verify = std::nullopt;    // what its files hold, when they are read; absent: yes
  int step_tokens = 0;                                    // see tokens_in_step
  int threads = 0;                                        // for kernels; 0: physical cores
  std::optional<kernels::Activations> activations = std::nullopt;
  kernels::KvQuantization kv_quantization = kernels::KvQuantization::kOff;
  bool exact = false;  // see engine::EngineOptions

  /// What prompts share is what a full batch leaves: half of the step at least, unless `step_tokens` says otherwise.
  /// The exact tier takes prompts in whole chunks, of which the oldest must get one.
  [[nodiscard]] int tokens_in_step() const {
    if (step_tokens > 0) return step_tokens;
    return exact ? 2 * kernels::kExactPromptChunk + max_batch : std::max(256, 2 * max_batch);
  }

  [[nodiscard]] kernels::KernelOptions kernel_options() const {
    return {.num_threads = threads, .exact = exact, .activations = activations, .kv_quantization = kv_quantization};
  }

  bool operator==(const EngineSettings&) const = default;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::string model;          // see locate_model
  std::string alias;          // the served id; empty: the model's own name

  std::string api_key_file;
  std::vector<std::string> allow_origins;
  std::vector<std::string> allow_hosts;
  bool insecure = false;  // serve other machines without keys

  EngineSettings engine;
  SamplingDefaults defaults;
  text::VolatileLines volatile_lines;                  // that templates do not see
  std::chrono::milliseconds request_timeout{0};        // from parsed to last byte; 0: none
  std::chrono::milliseconds shutdown_grace{30'000};    // what running requests get after the first signal
  std::chrono::milliseconds comment_interval{10'000};  // a stream that is silent for so long gets a comment line
  bool web_page = true;

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

}  // namespace redpoll::server
