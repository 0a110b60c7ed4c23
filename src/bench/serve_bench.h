// `redpoll bench serve`: what clients of a server see, over HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bench/conditions.h"
#include "bench/interference.h"
#include "bench/load.h"
#include "bench/statistics.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::bench {

struct ServeBenchOptions {
  std::string url;                // of a server that runs; empty: one is started for the occasion
  std::string model;              // what to serve; with a URL the id to ask for, empty: the first that is listed
  server::EngineSettings engine;  // of the server that is started
  int streams = 8;
  int requests = 0;  // in all; 0: two for each stream
  int prompt_words = 128;
  int warm_up_words = 0;       // of the request beforehand, after the shared prefix; 0: prompt_words
  int shared_prefix = 0;       // words that prompts begin with, beside their own
  double cache_hit_ratio = 1;  // share of the prompts that begin with these; the others begin with as many of their own
  int max_tokens = 64;
  int interfere_tokens = 0;  // about as many words has a prompt that comes in while the streams generate; 0: none
  std::uint64_t seed = 1;
};

struct ServeBenchReport {
  Conditions conditions;
  Percentiles ttft_ms;
  Percentiles between_tokens_ms;
  Percentiles total_ms;
  int requests = 0;
  double prompt_tokens = 0;        // mean of a request
  double output_tokens = 0;        // likewise; fewer than were asked for if the context ends
  double cached_share = 0;         // of all prompt tokens, as the server says
  double output_tokens_per_s = 0;  // of all streams together, from the first request sent to the last answer read
  double prompt_tokens_per_s = 0;
  std::optional<InterferenceFigure> interference;
};

/// Sends one request beforehand, which is not measured and leaves the shared prefix in the server's cache if it has
/// one.
[[nodiscard]] Result<ServeBenchReport> run_serve_bench(ServeBenchOptions options, const server::Progress& progress);

[[nodiscard]] std::string to_text(const ServeBenchReport& report);
[[nodiscard]] json::object to_json(const ServeBenchReport& report);

namespace internal {
/// The prompt that warms up, then those that are measured. Of the latter, evenly spread, cache_hit_ratio begin with the
/// words that the first begins with.
[[nodiscard]] std::vector<std::string> make_prompts(const ServeBenchOptions& options);
[[nodiscard]] std::vector<InterferencePrompts> make_interference(const ServeBenchOptions& options);
[[nodiscard]] ServeBenchReport summarize(const LoadResult& result);
}  // namespace internal

}  // namespace redpoll::bench
