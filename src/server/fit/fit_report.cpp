#include "server/fit/fit_report.h"

#include <utility>

#include "engine/available_memory.h"
#include "engine/fit/common_machines.h"
#include "engine/fit/fit.h"

namespace redpoll::server {
namespace {

/// `options` with a context that the model has.
std::vector<api::OtherMachine> other_machines(const engine::ModelFootprint& footprint, engine::EngineOptions options) {
  std::vector<api::OtherMachine> machines;
  for (const engine::MachineClass& kind : engine::machine_classes()) {
    for (const int gib : kind.memory_gib) {
      const std::size_t memory_bytes = static_cast<std::size_t>(gib) << 30U;
      options.memory_budget_bytes = engine::budget_of(memory_bytes);
      const auto fit = engine::find_fit(footprint, options);
      CHECK(fit, "only a context longer than the model's is refused");
      api::OtherMachine machine{.name = std::string(kind.name),
                                .memory_bytes = memory_bytes,
                                .read_gb_per_s = kind.read_gb_per_s,
                                .fits = fit->fits,
                                .sequences_at_once = fit->num_sequences,
                                .max_context = fit->max_context,
                                .at_start = {},
                                .at_context = {}};
      if (fit->max_context > 0) machine.at_start = predicted_tokens_per_s(fit->at_start, kind.read_gb_per_s);
      if (fit->fits) machine.at_context = predicted_tokens_per_s(fit->at_context, kind.read_gb_per_s);
      machines.push_back(std::move(machine));
    }
  }
  return machines;
}

}  // namespace

Result<api::FitReport> make_fit_report(const FitSubject& subject) {
  ASSIGN_OR_RETURN(const engine::Fit fit, engine::find_fit(subject.footprint, subject.options));
  engine::EngineOptions elsewhere = subject.options;
  elsewhere.context_length = fit.context;
  api::FitReport report{.model = subject.name,
                        .model_type = subject.footprint.model_type,
                        .machine = {.memory_bytes = engine::available_memory_bytes(),
                                    .budget_bytes = fit.budget_bytes,
                                    .read_gb_per_s = subject.read_gb_per_s},
                        .fits = fit.fits,
                        .sequences_at_once = fit.num_sequences,
                        .context = fit.context,
                        .max_context = fit.max_context,
                        .model_context = fit.model_context,
                        .max_batch = subject.options.max_batch,
                        .weights_bytes = fit.weight_bytes,
                        .kv_bytes_per_token = fit.sequence.bytes_per_token,
                        .fixed_bytes = fit.sequence.fixed_bytes,
                        .step_bytes = fit.step_bytes,
                        .ssd_cache_bytes = fit.disk_bytes,
                        .prompt_cache_bytes = fit.prompt_cache_bytes,
                        .one_sequence = {.cache_bytes = fit.cache_bytes, .total_bytes = fit.total_bytes()},
                        .full_batch = {.cache_bytes = fit.batch_cache_bytes, .total_bytes = fit.batch_total_bytes()},
                        .at_start = {.read_bytes = fit.at_start.all(), .predicted_tokens_per_s = {}},
                        .at_context = {.read_bytes = fit.at_context.all(), .predicted_tokens_per_s = {}},
                        .other_machines = other_machines(subject.footprint, std::move(elsewhere))};
  if (subject.read_gb_per_s) {
    const double rate = *subject.read_gb_per_s;
    if (fit.max_context > 0) report.at_start.predicted_tokens_per_s = predicted_tokens_per_s(fit.at_start, rate);
    if (fit.fits) report.at_context.predicted_tokens_per_s = predicted_tokens_per_s(fit.at_context, rate);
  }
  return report;
}

}  // namespace redpoll::server
