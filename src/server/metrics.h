// Metrics: what /metrics shows, in the Prometheus text format 0.0.4. Written by the sessions, once per request; reads
// nothing but what it is given. Knows no sockets and no model.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace redpoll::server {

/// A cumulative histogram over fixed upper bounds. Not thread-safe: a session fills its own and merges it at the end.
class Histogram {
 public:
  /// `upper_bounds` ascending, in the unit of the values; the bucket to infinity is implied.
  explicit Histogram(std::vector<double> upper_bounds);

  void observe(double value);
  /// Both must have the same bounds.
  void merge(const Histogram& other);
  /// Appends the # HELP, # TYPE, _bucket, _sum and _count lines.
  void write(std::string_view name, std::string_view help, std::string& out) const;
  [[nodiscard]] std::uint64_t count() const;

 private:
  std::vector<double> upper_bounds_;
  std::vector<std::uint64_t> counts_;  // one more than bounds, not cumulative
  double sum_ = 0;
};

/// Buckets for the time between two tokens; sessions use it for their own histogram.
[[nodiscard]] Histogram make_inter_token_histogram();

/// The status, in metrics only, of a request whose client went away first.
inline constexpr int kClientGoneStatus = 499;

/// One finished request, however it ended. Times in seconds.
struct RequestObservation {
  std::string_view endpoint;  // "chat", "completions": a fixed small set, it becomes a label
  int status = 200;
  bool generated = false;  // the engine ran it: the fields below mean something
  double queue_s = 0;
  double ttft_s = 0;  // negative: no token came
  double total_s = 0;
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;
  int volatile_lines = 0;  // left out of its system prompt
};

/// Thread-safe; lives as long as the server.
class Metrics {
 public:
  Metrics();

  void observe(const RequestObservation& request, const Histogram& inter_token_s);

  /// The whole page: what was observed, and the engine's counters and gauges from `engine`.
  [[nodiscard]] std::string text(const engine::EngineStats& engine, std::string_view version,
                                 std::string_view model) const;

 private:
  mutable std::mutex mutex_;
  Histogram queue_s_;
  Histogram ttft_s_;
  Histogram inter_token_s_;
  Histogram request_s_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;  // by endpoint and status
  std::uint64_t cancellations_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t completion_tokens_ = 0;
  std::uint64_t volatile_lines_ = 0;
};

}  // namespace redpoll::server
