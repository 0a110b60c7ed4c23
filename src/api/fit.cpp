#include "api/fit.h"

#include <charconv>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace redpoll::api {
namespace {

constexpr int kMaxContext = 1'000'000'000;

json::value or_null(const std::optional<double>& number) { return number ? json::value(*number) : json::value(); }

json::object token_cost_json(const TokenCost& cost) {
  return {{"read_bytes", cost.read_bytes}, {"predicted_tokens_per_s", or_null(cost.predicted_tokens_per_s)}};
}

json::array other_machines_json(const std::vector<OtherMachine>& machines) {
  json::array out;
  for (const OtherMachine& machine : machines) {
    out.push_back({{"name", machine.name},
                   {"memory_bytes", machine.memory_bytes},
                   {"read_gb_per_s", machine.read_gb_per_s},
                   {"fits", machine.fits},
                   {"sequences_at_once", machine.sequences_at_once},
                   {"max_context", machine.max_context},
                   {"predicted_tokens_per_s_at_start", or_null(machine.at_start)},
                   {"predicted_tokens_per_s_at_context", or_null(machine.at_context)}});
  }
  return out;
}

}  // namespace

Result<FitQuestion> parse_fit_question(const std::vector<std::pair<std::string, std::string>>& query) {
  FitQuestion question;
  for (const auto& [name, value] : query) {
    if (name != "context") {
      return fail(ErrorCode::kInvalidArgument, "expected only 'context' in the query, got " + in_quotes(name));
    }
    if (question.context) return fail(ErrorCode::kInvalidArgument, "'context' comes twice in the query", "context");
    int tokens = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), tokens);
    if (problem != std::errc() || end != value.data() + value.size() || tokens < 1 || tokens > kMaxContext) {
      return fail(
          ErrorCode::kInvalidArgument,
          "'context': expected a whole number from 1 to " + std::to_string(kMaxContext) + ", got " + in_quotes(value),
          "context");
    }
    question.context = tokens;
  }
  return question;
}

std::string format_fit(const FitReport& report) {
  return dump_json(
      {{"model", report.model},
       {"model_type", report.model_type},
       {"machine",
        {{"memory_bytes", report.machine.memory_bytes},
         {"budget_bytes", report.machine.budget_bytes},
         {"read_gb_per_s", or_null(report.machine.read_gb_per_s)}}},
       {"fits", report.fits},
       {"sequences_at_once", report.sequences_at_once},
       {"context", report.context},
       {"max_context", report.max_context},
       {"model_context", report.model_context},
       {"max_batch", report.max_batch},
       {"weights_bytes", report.weights_bytes},
       {"kv_bytes_per_token", report.kv_bytes_per_token},
       {"fixed_bytes", report.fixed_bytes},
       {"step_bytes", report.step_bytes},
       {"ssd_cache_bytes", report.ssd_cache_bytes},
       {"prompt_cache_bytes", report.prompt_cache_bytes},
       {"one_sequence",
        {{"cache_bytes", report.one_sequence.cache_bytes}, {"total_bytes", report.one_sequence.total_bytes}}},
       {"full_batch", {{"cache_bytes", report.full_batch.cache_bytes}, {"total_bytes", report.full_batch.total_bytes}}},
       {"at_start", token_cost_json(report.at_start)},
       {"at_context", token_cost_json(report.at_context)},
       {"other_machines", other_machines_json(report.other_machines)}});
}

}  // namespace redpoll::api
