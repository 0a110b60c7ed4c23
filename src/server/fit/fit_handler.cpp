#include "server/fit/fit_handler.h"

#include <algorithm>

#include "engine/available_memory.h"
#include "server/fit/fit_report.h"
#include "server/process_memory.h"
#include "server/responses.h"

namespace redpoll::server {
namespace {

/// What the memory budget has left beside all that is resident, or will be as soon as a request computes. Nothing while
/// one does.
std::size_t spare_bytes(const AppContext& context) {
  const engine::EngineStats stats = context.model->engine->stats();
  if (stats.running > 0 || stats.waiting > 0) return 0;
  const engine::EngineOptions options = engine_options(context.options.engine);
  const std::size_t disk_bytes = options.ssd_cache ? engine::memory_bytes(*options.ssd_cache) : 0;
  const std::size_t needed =
      std::max(resident_bytes().value_or(0), stats.weight_bytes + stats.kv_bytes_used) + stats.step_bytes + disk_bytes;
  const std::size_t budget = std::min(stats.memory_budget_bytes, engine::available_memory_bytes());
  return budget > needed ? budget - needed : 0;
}

std::optional<double> read_gb_per_s(AppContext& context) {
  return context.memory_speed.read_gb_per_s([&] { return spare_bytes(context); });
}

Result<std::string> answer(AppContext& context, const std::string& target) {
  ASSIGN_OR_RETURN(const std::vector<http::QueryField> query, http::parse_query(target));
  ASSIGN_OR_RETURN(const api::FitQuestion question, api::parse_fit_question(query));
  const engine::EngineStats stats = context.model->engine->stats();
  engine::EngineOptions options = engine_options(context.options.engine);
  options.block_tokens = stats.footprint.block_tokens;
  options.memory_budget_bytes = stats.memory_budget_bytes;
  options.context_length = question.context.value_or(stats.context.tokens);
  ASSIGN_OR_RETURN(api::FitReport report, make_fit_report({.name = context.model->id,
                                                           .footprint = stats.footprint,
                                                           .options = options,
                                                           .read_gb_per_s = read_gb_per_s(context)}));
  return api::format_fit(report);
}

}  // namespace

http::Task<http::Response> get_fit(AppContext& context, http::Request& request) {
  const std::string target = request.target;
  const Result<std::string> body =
      co_await http::run_on(*context.workers, [&] { return answer(context, target); }, TaskLength::kLong);
  co_return body ? json_response(*body) : error_response(body.error());
}

}  // namespace redpoll::server
