#include "server/status_handlers.h"

#include <span>

#include "api/errors.h"
#include "api/native.h"
#include "api/openai/models.h"
#include "api/stats.h"
#include "base/random_id.h"
#include "server/process_memory.h"
#include "server/responses.h"
#include "server/web_page.h"

namespace redpoll::server {
namespace {

std::string state_name(engine::EngineState state) {
  switch (state) {
    case engine::EngineState::kLoading: return "loading";
    case engine::EngineState::kReady: return "ok";
    case engine::EngineState::kFailed: return "failed";
    case engine::EngineState::kStopped: return "stopping";
  }
  return "unknown";
}

api::openai::ModelInfo model_info(const AppContext& context) {
  return {context.model->id, context.started_at_unix, context.model->context.tokens};
}

void fill_engine(api::Stats& stats, const engine::EngineStats& engine) {
  stats.engine.state = state_name(engine.state);
  stats.engine.running = engine.running;
  stats.engine.waiting = engine.waiting;
  stats.engine.step_ms_p50 = engine.step_ms_p50;
  stats.engine.tokens_per_s = engine.tokens_per_s;
  stats.engine.prefill_tokens_per_s = engine.prefill_tokens_per_s;
  for (const engine::RequestStats& request : engine.requests) {
    stats.requests.push_back(
        {request.name, request.state, request.prompt_tokens, request.computed_tokens, request.generated_tokens});
  }
  stats.kv.block_tokens = engine.block_tokens;
  stats.kv.blocks_total = engine.blocks_total;
  stats.kv.blocks_used = engine.blocks_used;
  stats.kv.bytes_total = engine.kv_bytes_total;
  stats.kv.bytes_used = engine.kv_bytes_used;
  stats.kv.scheme = engine.kv_scheme;
  stats.prompt_cache.entries = engine.prompt_cache.entries;
  stats.prompt_cache.bytes = engine.prompt_cache.bytes;
  stats.prompt_cache.max_bytes = engine.prompt_cache.max_bytes;
  stats.prompt_cache.hits = engine.prompt_cache.hits;
  stats.prompt_cache.misses = engine.prompt_cache.misses;
  stats.prompt_cache.hit_tokens = engine.prompt_cache.hit_tokens;
  if (engine.ssd_cache) {
    const auto& [tier, restore_ms_last, waiting, given_up] = *engine.ssd_cache;
    stats.ssd_cache.entries = tier.entries;
    stats.ssd_cache.bytes = tier.bytes;
    stats.ssd_cache.max_bytes = tier.max_bytes;
    stats.ssd_cache.restores = tier.restores;
    stats.ssd_cache.spills = tier.spills;
    stats.ssd_cache.restore_ms_last = restore_ms_last;
    stats.ssd_cache.waiting = waiting;
    stats.ssd_cache.given_up = given_up;
    stats.ssd_cache.dropped = tier.dropped;
    stats.ssd_cache.failed = tier.failed;
  }
  stats.memory.budget_bytes = engine.memory_budget_bytes;
  stats.memory.weights_bytes = engine.weight_bytes;
  stats.memory.kv_bytes = engine.kv_bytes_total;
  stats.memory.step_bytes = engine.step_bytes;
  stats.memory.max_context = engine.context.tokens;
}

}  // namespace

http::Response get_health(const AppContext& context) {
  engine::EngineState state = engine::EngineState::kLoading;
  std::string reason(kLoadingReason);
  if (context.loaded) {
    const engine::EngineStats engine = context.model->engine->stats();
    state = engine.state;
    reason = engine.reason;
  }
  http::Response response = json_response(api::format_health(state_name(state), reason));
  if (state != engine::EngineState::kReady) {
    response.status = api::http_status(ErrorCode::kUnavailable);
    response.headers = api::error_headers(ErrorCode::kUnavailable);
  }
  return response;
}

http::Response get_stats(const AppContext& context) {
  api::Stats stats;
  stats.server.version = context.version;
  stats.server.model = context.model->id;
  stats.server.started_at = context.started_at_unix;
  stats.server.uptime_s = milliseconds_between(context.started_at, system_clock().now()) / 1000;
  fill_engine(stats, context.model->engine->stats());
  stats.memory.rss_bytes = resident_bytes().value_or(0);
  return json_response(api::format_stats(stats));
}

http::Response get_metrics(const AppContext& context) {
  http::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context.metrics.text(context.model->engine->stats(), context.version, context.model->id);
  return response;
}

http::Response get_models(const AppContext& context) {
  const api::openai::ModelInfo served[] = {model_info(context)};
  return json_response(api::openai::format_model_list(served));
}

http::Response get_model(const AppContext& context, const http::Request& request) {
  if (Status known = api::check_model(request.parameter("id"), context.model->id); !known) {
    return error_response(known.error());
  }
  return json_response(api::openai::format_model(model_info(context)));
}

http::Response get_page(const AppContext& context, const http::Request& request) {
  const std::string nonce = random_hex();
  const std::string base_url = "http://" + std::string(request.header("host"));
  http::Response response;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"content-security-policy", web_page_policy(nonce)}, {"cache-control", "no-store"}};
  response.body = web_page(
      {context.version, context.model->id, context.model->context.tokens, base_url, context.key_required}, nonce);
  return response;
}

}  // namespace redpoll::server
