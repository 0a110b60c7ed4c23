#include "api/stats.h"

#include "base/json.h"

namespace redpoll::api {
namespace {

json::array requests_json(const std::vector<RequestStats>& requests) {
  json::array out;
  for (const RequestStats& request : requests) {
    out.push_back({{"id", request.id},
                   {"state", request.state},
                   {"prompt_tokens", request.prompt_tokens},
                   {"computed_tokens", request.computed_tokens},
                   {"generated_tokens", request.generated_tokens}});
  }
  return out;
}

}  // namespace

std::string format_stats(const Stats& stats) {
  const auto& [server, engine, requests, kv, prompts, ssd_cache, memory] = stats;
  return dump_json({{"server",
                     {{"version", server.version},
                      {"model", server.model},
                      {"started_at", server.started_at},
                      {"uptime_s", server.uptime_s}}},
                    {"engine",
                     {{"state", engine.state},
                      {"running", engine.running},
                      {"waiting", engine.waiting},
                      {"step_ms_p50", engine.step_ms_p50},
                      {"tokens_per_s", engine.tokens_per_s},
                      {"prefill_tokens_per_s", engine.prefill_tokens_per_s}}},
                    {"requests", requests_json(requests)},
                    {"kv",
                     {{"block_tokens", kv.block_tokens},
                      {"blocks_total", kv.blocks_total},
                      {"blocks_used", kv.blocks_used},
                      {"bytes_total", kv.bytes_total},
                      {"bytes_used", kv.bytes_used},
                      {"scheme", kv.scheme}}},
                    {"prompt_cache",
                     {{"entries", prompts.entries},
                      {"bytes", prompts.bytes},
                      {"max_bytes", prompts.max_bytes},
                      {"hits", prompts.hits},
                      {"misses", prompts.misses},
                      {"hit_tokens", prompts.hit_tokens}}},
                    {"ssd_cache",
                     {{"entries", ssd_cache.entries},
                      {"bytes", ssd_cache.bytes},
                      {"max_bytes", ssd_cache.max_bytes},
                      {"restores", ssd_cache.restores},
                      {"spills", ssd_cache.spills},
                      {"restore_ms_last", ssd_cache.restore_ms_last},
                      {"waiting", ssd_cache.waiting},
                      {"given_up", ssd_cache.given_up},
                      {"dropped", ssd_cache.dropped},
                      {"failed", ssd_cache.failed}}},
                    {"memory",
                     {{"budget_bytes", memory.budget_bytes},
                      {"weights_bytes", memory.weights_bytes},
                      {"kv_bytes", memory.kv_bytes},
                      {"step_bytes", memory.step_bytes},
                      {"rss_bytes", memory.rss_bytes},
                      {"max_context", memory.max_context}}}});
}

}  // namespace redpoll::api
