#include "server/fit/fit_handler.h"

#include "server/fit/fit_report.h"
#include "server/responses.h"

namespace redpoll::server {
namespace {

Result<std::string> answer(const AppContext& context, const http::Request& request) {
  ASSIGN_OR_RETURN(const std::vector<http::QueryField> query, http::parse_query(request.target));
  ASSIGN_OR_RETURN(const api::FitQuestion question, api::parse_fit_question(query));
  const engine::EngineStats stats = context.model->engine->stats();
  engine::EngineOptions options = engine_options(context.options.engine);
  options.block_tokens = stats.footprint.block_tokens;
  options.memory_budget_bytes = stats.memory_budget_bytes;
  options.context_length = question.context.value_or(stats.context.tokens);
  ASSIGN_OR_RETURN(const api::FitReport report, make_fit_report({.name = context.model->id,
                                                                 .footprint = stats.footprint,
                                                                 .options = options,
                                                                 .read_gb_per_s = std::nullopt}));
  return api::format_fit(report);
}

}  // namespace

http::Response get_fit(const AppContext& context, const http::Request& request) {
  Result<std::string> body = answer(context, request);
  return body ? json_response(*std::move(body)) : error_response(body.error());
}

}  // namespace redpoll::server
