// `redpoll fit`: what a model takes of a memory, how long a context that leaves, and how fast it should answer, here
// and on other machines. Reads no weights, so the model may be larger than memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/table.h"
#include "checkpoint/checkpoint.h"
#include "cli/shared_flags.h"
#include "cli/verbs.h"
#include "engine/model_memory.h"
#include "server/fit/fit_report.h"
#include "server/fit/memory_speed.h"
#include "server/model_locator.h"
#include "server/served_model.h"

namespace redpoll::cli {
namespace {

struct FitVerb {
  std::string model;
  server::EngineSettings engine;
  bool as_json = false;
};

std::string shown_tokens(int num_tokens) { return num_tokens > 0 ? std::to_string(num_tokens) + " tokens" : "none"; }

std::string shown_rate(const std::optional<double>& tokens_per_s) {
  return tokens_per_s ? bench::format_figure(*tokens_per_s) : "-";
}

using Lines = std::vector<std::pair<std::string, std::string>>;

void print_lines(const Lines& lines) {
  std::size_t width = 0;
  for (const auto& line : lines) width = std::max(width, line.first.size());
  for (const auto& [label, text] : lines) {
    std::cout << label << std::string(width - label.size() + 2, ' ') << text << '\n';
  }
}

std::string verdict(const api::FitReport& report) {
  if (report.fits && report.sequences_at_once == report.max_batch) {
    return report.max_batch == 1 ? "yes" : "yes, " + std::to_string(report.max_batch) + " such sequences at once";
  }
  if (report.fits) {
    return (report.sequences_at_once == 1 ? "one such sequence at a time"
                                          : std::to_string(report.sequences_at_once) + " such sequences at once") +
           ", of the " + std::to_string(report.max_batch) + " of --max-batch; others wait";
  }
  if (report.max_context == 0) return "no, not with any context";
  return "no, a context of " + std::to_string(report.max_context) + " would";
}

std::string memory_speed(const api::FitReport& report) {
  const auto& rate = report.machine.read_gb_per_s;
  if (rate) return "memory here gives " + bench::format_figure(*rate) + " GB/s";
  return "the speed of memory is not known: a GPU computes, or the budget is too small to measure in";
}

void print_this_machine(const api::FitReport& report) {
  std::string batch = std::to_string(report.max_batch) + " such sequences at once";
  std::string cache = bench::format_bytes(report.kv_bytes_per_token) + " a token";
  if (report.fixed_bytes > 0)
    cache += " and " + bench::format_bytes(report.fixed_bytes) + " a sequence, for windows and states";
  Lines lines = {{"model", report.model + " (" + report.model_type + ")"},
                 {"memory budget", bench::format_bytes(report.machine.budget_bytes) + " of " +
                                       bench::format_bytes(report.machine.memory_bytes)},
                 {"weights", bench::format_bytes(report.weights_bytes)},
                 {"cache", cache},
                 {"a step", bench::format_bytes(report.step_bytes)}};
  if (report.ssd_cache_bytes > 0)
    lines.emplace_back("buffers of --ssd-cache", bench::format_bytes(report.ssd_cache_bytes));
  const std::string prompts =
      report.prompt_cache_bytes == 0
          ? "none"
          : "up to " + bench::format_bytes(report.prompt_cache_bytes) + " of what sequences leave";
  lines.insert(lines.end(),
               {{"a sequence of " + shown_tokens(report.context),
                 bench::format_bytes(report.one_sequence.cache_bytes) + ", with all the above " +
                     bench::format_bytes(report.one_sequence.total_bytes)},
                {std::move(batch), bench::format_bytes(report.full_batch.cache_bytes) + ", with all the above " +
                                       bench::format_bytes(report.full_batch.total_bytes)},
                {"prompts that are kept", prompts},
                {"fits", verdict(report)},
                {"longest context",
                 shown_tokens(report.max_context) + ", of the model's " + std::to_string(report.model_context)},
                {"predicted tokens/s", shown_rate(report.at_start.predicted_tokens_per_s) + " at the start, " +
                                           shown_rate(report.at_context.predicted_tokens_per_s) + " after " +
                                           std::to_string(report.context) + "; " + memory_speed(report)}});
  print_lines(lines);
}

void print_other_machines(const api::FitReport& report) {
  bench::Table table({"machine", "memory", "GB/s", "at once", "longest context", "tokens/s at the start",
                      "after " + std::to_string(report.context)});
  for (const api::OtherMachine& machine : report.other_machines) {
    table.add_row({machine.name, std::to_string(machine.memory_bytes >> 30U) + " GiB",
                   bench::format_figure(machine.read_gb_per_s),
                   machine.fits ? std::to_string(machine.sequences_at_once) : "none",
                   machine.max_context > 0 ? std::to_string(machine.max_context) : "-", shown_rate(machine.at_start),
                   shown_rate(machine.at_context)});
  }
  std::cout
      << "\nPredictions for other machines, with 75 % of their memory as the budget: how many sequences of " +
             shown_tokens(report.context) +
             "\nfit at once, and tokens a second of one. They take a step to wait for memory: a small model on a fast\n"
             "machine stays below them.\n\n"
      << table.text();
}

Result<api::FitReport> examine(const FitVerb& verb) {
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(verb.model, server::ModelPlaces::from_environment()));
  ASSIGN_OR_RETURN(const checkpoint::Checkpoint checkpoint, checkpoint::open_checkpoint(location.path));
  const engine::EngineOptions options = server::engine_options(verb.engine);
  kernels::KernelOptions kernels = verb.engine.kernel_options();
  kernels.num_threads = 1;  // which compute nothing
  ASSIGN_OR_RETURN(engine::ModelFootprint footprint, engine::footprint_of(checkpoint, kernels, options.block_tokens));
  std::size_t budget = engine::default_memory_budget();
  if (options.memory_budget_bytes > 0) budget = std::min(budget, options.memory_budget_bytes);
  return server::make_fit_report({.name = location.name,
                                  .footprint = std::move(footprint),
                                  .options = options,
                                  .read_gb_per_s = server::MemorySpeed::measure(budget)});
}

int run(const FitVerb& verb) {
  if (const auto conflict = conflict_of(verb.engine)) return report_usage("fit", *conflict);
  const auto report = examine(verb);
  if (!report) return cli::report(report.error());
  if (verb.as_json) {
    std::cout << api::format_fit(*report) << '\n';
  } else {
    print_this_machine(*report);
    print_other_machines(*report);
  }
  return report->fits ? kExitFine : kExitFailed;
}

}  // namespace

void add_fit(CommandLine& command_line) {
  constexpr WholeRange kContext = {1, 1'000'000'000};
  const auto verb = std::make_shared<FitVerb>();
  FlagSet& flags =
      command_line.add_verb("fit", "Say what memory a model takes, what context fits and how fast it should be",
                            [verb] { return run(*verb); });
  add_model_flag(flags, verb->model);
  flags.whole("--context", verb->engine.context_length, kContext, "Tokens of a sequence, prompt and answer")
      .or_else("the longest that fits");
  add_memory_flags(flags, verb->engine);
  flags.toggle("--json", verb->as_json, "As one JSON object, as GET /fit gives it");
}

}  // namespace redpoll::cli
