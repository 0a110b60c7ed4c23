#include "bench/conditions.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "bench/table.h"
#include "kernels/cpu/topology.h"
#include "kernels/device_info.h"

namespace redpoll::bench {
namespace {

std::string shown(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_double()) return format_figure(value.get_double());
  return dump_json(value);
}

}  // namespace

Conditions describe_here(const Machine& machine) {
  return {{"date", "date", json::string(internal::utc_time(system_clock().wall_now()))},
          {"redpoll", "version", json::string(REDPOLL_VERSION)},
          {"processor", "cpu", json::string(machine.cpu)},
          {"usable cores", "usable_cores", machine.usable_cores},
          {"load before", "load_average", machine.load_average}};
}

Conditions describe_engine(const server::ServedModel& model, const server::EngineSettings& settings) {
  const kernels::DeviceInfo device = kernels::describe_device(settings.kernel_options());
  const engine::EngineStats stats = model.engine->stats();
  const int threads = settings.threads > 0 ? settings.threads : kernels::cpu::num_usable_cores();
  return {{"device", "device", json::string(device.device)},
          {"MLX", "mlx_version", json::string(device.mlx_version)},
          {"kernel set", "kernel_set", json::string(device.kernel_set)},
          {"kernel threads", "threads", threads},
          {"model", "model", json::string(model.id)},
          {"weight bytes", "weight_bytes", stats.weight_bytes},
          {"keys and values", "kv_scheme", json::string(stats.kv_scheme)},
          {"KV bytes a token", "kv_bytes_per_token", kv_bytes_per_token(stats)},
          {"state bytes a sequence", "state_bytes", state_bytes(stats)},
          {"context", "context", stats.context.tokens},
          {"rows in a step", "max_batch", settings.max_batch},
          {"tokens in a step", "step_tokens", settings.tokens_in_step()}};
}

std::string to_text(const Conditions& conditions) {
  std::size_t width = 0;
  for (const Condition& condition : conditions) width = std::max(width, condition.label.size());
  std::string text;
  for (const Condition& condition : conditions) {
    text += condition.label + std::string(width - condition.label.size() + 2, ' ') + shown(condition.value) + '\n';
  }
  return text;
}

json::object to_json(const Conditions& conditions) {
  json::object object;
  for (const Condition& condition : conditions) object[condition.key] = condition.value;
  return object;
}

double state_bytes(const engine::EngineStats& stats) {
  double bytes = 0;
  for (const engine::KvGroupStats& group : stats.kv_groups) {
    if (group.kind == cache::CacheKind::kRecurrent) bytes += static_cast<double>(group.bytes_per_block);
  }
  return bytes;
}

double kv_bytes_per_token(const engine::EngineStats& stats) { return kv_bytes_read(stats, 1, 1) - state_bytes(stats); }

double kv_bytes_read(const engine::EngineStats& stats, double context, int num_tokens) {
  double bytes = state_bytes(stats);
  for (const engine::KvGroupStats& group : stats.kv_groups) {
    if (group.kind == cache::CacheKind::kRecurrent) continue;
    const double seen = group.window == 0 ? context : std::min<double>(context, group.window + num_tokens - 1);
    bytes += seen * static_cast<double>(group.bytes_per_block) / stats.block_tokens;
  }
  return bytes;
}

namespace internal {

std::string utc_time(std::chrono::system_clock::time_point time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

}  // namespace internal
}  // namespace redpoll::bench
