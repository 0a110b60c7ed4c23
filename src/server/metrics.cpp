#include "server/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace redpoll::server {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// Backslash, quote and line feed are the three that the format escapes in label values.
std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void write_head(std::string_view name, std::string_view type, std::string_view help, std::string& out) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void write_value(std::string_view name, std::string_view type, std::string_view help, double value, std::string& out) {
  write_head(name, type, help, out);
  out.append(name).append(" ").append(number(value)).append("\n");
}

void write_engine(const engine::EngineStats& engine, std::string& out) {
  const auto counter = [&](std::string_view name, std::string_view help, std::size_t value) {
    write_value(name, "counter", help, static_cast<double>(value), out);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    write_value(name, "gauge", help, value, out);
  };
  counter("redpoll_preemptions_total", "Sequences set back for want of cache blocks.", engine.preemptions);
  counter("redpoll_engine_steps_total", "Forward passes.", engine.steps);
  counter("redpoll_engine_failed_steps_total", "Forward passes that failed.", engine.failed_steps);
  gauge("redpoll_requests_running", "Sequences being computed.", engine.running);
  gauge("redpoll_requests_waiting", "Requests in the queue.", engine.waiting);
  gauge("redpoll_kv_blocks", "Blocks of the KV cache.", engine.blocks_total);
  gauge("redpoll_kv_blocks_used", "Blocks of the KV cache in use.", engine.blocks_used);
  gauge("redpoll_kv_bytes_used", "Bytes of the KV cache in use.", static_cast<double>(engine.kv_bytes_used));
  gauge("redpoll_engine_ready", "1 while the engine can answer.", engine.state == engine::EngineState::kReady ? 1 : 0);
}

}  // namespace

Histogram::Histogram(std::vector<double> upper_bounds)
    : upper_bounds_(std::move(upper_bounds)), counts_(upper_bounds_.size() + 1, 0) {}

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(upper_bounds_, value);
  ++counts_[static_cast<std::size_t>(bucket - upper_bounds_.begin())];
  sum_ += value;
}

void Histogram::merge(const Histogram& other) {
  CHECK(upper_bounds_ == other.upper_bounds_, "histograms with different buckets cannot be added");
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  sum_ += other.sum_;
}

std::uint64_t Histogram::count() const {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts_) total += count;
  return total;
}

void Histogram::write(std::string_view name, std::string_view help, std::string& out) const {
  write_head(name, "histogram", help, out);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    cumulative += counts_[i];
    const std::string bound = i < upper_bounds_.size() ? number(upper_bounds_[i]) : "+Inf";
    out.append(name).append("_bucket{le=\"").append(bound).append("\"} ");
    out.append(std::to_string(cumulative)).append("\n");
  }
  out.append(name).append("_sum ").append(number(sum_)).append("\n");
  out.append(name).append("_count ").append(std::to_string(cumulative)).append("\n");
}

Histogram make_inter_token_histogram() {
  return Histogram({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5});
}

Metrics::Metrics()
    : queue_s_({0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}),
      ttft_s_({0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}),
      inter_token_s_(make_inter_token_histogram()),
      request_s_({0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}) {}

void Metrics::observe(const RequestObservation& request, const Histogram& inter_token_s) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(request.endpoint), request.status}];
  if (request.status == kClientGoneStatus) ++cancellations_;
  if (!request.generated) return;
  queue_s_.observe(request.queue_s);
  if (request.ttft_s >= 0) ttft_s_.observe(request.ttft_s);
  inter_token_s_.merge(inter_token_s);
  request_s_.observe(request.total_s);
  prompt_tokens_ += static_cast<std::uint64_t>(request.prompt_tokens);
  cached_tokens_ += static_cast<std::uint64_t>(request.cached_tokens);
  completion_tokens_ += static_cast<std::uint64_t>(request.completion_tokens);
  volatile_lines_ += static_cast<std::uint64_t>(request.volatile_lines);
}

std::string Metrics::text(const engine::EngineStats& engine, std::string_view version, std::string_view model) const {
  std::string out;
  write_head("redpoll_build_info", "gauge", "1, with the version and the served model as labels.", out);
  out += "redpoll_build_info{version=\"" + label_value(version) + "\",model=\"" + label_value(model) + "\"} 1\n";
  {
    const std::lock_guard lock(mutex_);
    write_head("redpoll_requests_total", "counter", "Generation requests by endpoint and HTTP status.", out);
    for (const auto& [key, count] : requests_) {
      out += "redpoll_requests_total{endpoint=\"" + label_value(key.first) + "\",status=\"" +
             std::to_string(key.second) + "\"} " + std::to_string(count) + "\n";
    }
    const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
      write_value(name, "counter", help, static_cast<double>(value), out);
    };
    counter("redpoll_prompt_tokens_total", "Prompt tokens of finished requests.", prompt_tokens_);
    counter("redpoll_cached_tokens_total", "Of those, found in the prompt cache.", cached_tokens_);
    counter("redpoll_completion_tokens_total", "Generated tokens of finished requests.", completion_tokens_);
    counter("redpoll_volatile_lines_total", "Lines left out at the start of system prompts.", volatile_lines_);
    counter("redpoll_cancellations_total", "Requests whose client went away before the end.", cancellations_);
    queue_s_.write("redpoll_queue_seconds", "Submitted to first scheduled.", out);
    ttft_s_.write("redpoll_time_to_first_token_seconds", "Submitted to first token.", out);
    inter_token_s_.write("redpoll_inter_token_seconds", "Between two tokens of a choice, as delivered.", out);
    request_s_.write("redpoll_request_seconds", "Request parsed to last byte handed to the connection.", out);
  }
  write_engine(engine, out);
  return out;
}

}  // namespace redpoll::server
