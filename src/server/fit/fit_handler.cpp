#include "server/fit/fit_handler.h"

#include "engine/available_memory.h"
#include "kernels/device_info.h"
#include "server/fit/fit_report.h"
#include "server/responses.h"

namespace redpoll::server {
namespace {

std::optional<double> read_gb_per_s(AppContext& context) {
  return context.memory_speed.read_gb_per_s([&] {
    const engine::EngineStats stats = context.model->engine->stats();
    // Beside all that the engine may still take. A GPU's memory is not what the processor reads.
    return stats.running == 0 && stats.waiting == 0 && kernels::describe_device().device == "cpu" &&
           engine::available_memory_bytes() >= stats.memory_budget_bytes + MemorySpeed::bytes();
  });
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
