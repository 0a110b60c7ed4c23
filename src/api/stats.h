// GET /stats: a snapshot of the server as JSON. Sections appear with the features that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace redpoll::api {

struct RequestStats {
  std::string id;
  std::string state;
  int prompt_tokens = 0;
  int computed_tokens = 0;
  int generated_tokens = 0;
};

/// Names are those of the JSON.
struct Stats {
  struct {
    std::string version;
    std::string model;
    std::int64_t started_at = 0;  // seconds since 1970
    double uptime_s = 0;
  } server;
  struct {
    std::string state;
    int running = 0;
    int waiting = 0;
    double step_ms_p50 = 0;
    double tokens_per_s = 0;
    double prefill_tokens_per_s = 0;
  } engine;
  std::vector<RequestStats> requests;
  struct {
    int block_tokens = 0;
    int blocks_total = 0;
    int blocks_used = 0;
    std::uint64_t bytes_total = 0;
    std::uint64_t bytes_used = 0;
    std::string scheme;
  } kv;
  struct {
    int entries = 0;
    std::uint64_t bytes = 0;
    std::uint64_t max_bytes = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t hit_tokens = 0;
  } prompt_cache;
  struct {
    int entries = 0;  // files
    std::uint64_t bytes = 0;
    std::uint64_t max_bytes = 0;
    std::uint64_t restores = 0;
    std::uint64_t spills = 0;
    double restore_ms_last = 0;
    std::uint64_t waiting = 0;
    std::uint64_t given_up = 0;
    std::uint64_t dropped = 0;
    std::uint64_t failed = 0;
  } ssd_cache;  // zeros without one
  struct {
    std::uint64_t budget_bytes = 0;
    std::uint64_t weights_bytes = 0;
    std::uint64_t kv_bytes = 0;
    std::uint64_t step_bytes = 0;  // set aside for activations and logits
    std::uint64_t rss_bytes = 0;
    int max_context = 0;
  } memory;
};

[[nodiscard]] std::string format_stats(const Stats& stats);

}  // namespace redpoll::api
