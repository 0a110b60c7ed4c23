#include "bench/profile_bench.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "bench/engine_streams.h"
#include "bench/prompts.h"
#include "bench/table.h"
#include "kernels/cpu/topology.h"
#include "kernels/device_info.h"
#include "server/model_locator.h"

namespace redpoll::bench {
namespace {

using engine::StepPhase;
using engine::StepTotals;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

ProfileRow rest_of_step(std::string name, double ms) {
  return {.name = std::move(name),
          .shape = "",
          .calls = kUnknown,
          .ms = ms,
          .gb_per_s = kUnknown,
          .gop_per_s = kUnknown,
          .roofline = kUnknown};
}

ProfileRow operation_row(const kernels::OperationKey& key, const kernels::OperationTotals& totals, double steps,
                         const Roofline& roofline) {
  const double seconds = milliseconds(totals.time) / 1000;
  const kernels::Work& work = totals.work;
  const double reading = work.bytes / 1e9 / roofline.read_gb_per_s;
  const double computing = work.float_ops / 1e9 / roofline.float_gop_per_s +
                           work.int16_ops / 1e9 / roofline.int16_gop_per_s +
                           work.int8_ops / 1e9 / roofline.int8_gop_per_s;
  return {.name = key.first,
          .shape = key.second,
          .calls = static_cast<double>(totals.calls) / steps,
          .ms = seconds * 1000 / steps,
          .gb_per_s = work.bytes / 1e9 / seconds,
          .gop_per_s = (work.float_ops + work.int16_ops + work.int8_ops) / 1e9 / seconds,
          .roofline = std::max(reading, computing) / seconds};
}

/// Measures one figure after the other on an idle engine.
class StepBench {
 public:
  StepBench(engine::Engine& engine, engine::StepProfile& profile, const EngineBenchOptions& options,
            const Roofline& roofline)
      : engine_(engine),
        profile_(profile),
        options_(options),
        roofline_(roofline),
        vocab_size_(engine.stats().vocab_size),
        prompts_(options.seed) {}

  Result<StepFigure> prefill(int tokens);
  Result<StepFigure> decode(int depth, int batch);

 private:
  engine::Engine& engine_;
  engine::StepProfile& profile_;
  const EngineBenchOptions& options_;
  const Roofline& roofline_;
  int vocab_size_;
  PromptSource prompts_;
};

Result<StepFigure> StepBench::prefill(int tokens) {
  (void)profile_.take();
  for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
    EngineStreams streams(engine_);
    RETURN_IF_ERROR(streams.start(prompts_.ids(tokens, vocab_size_), 1));
    RETURN_IF_ERROR(streams.wait_for(1));
  }
  return internal::break_down("prefill of " + std::to_string(tokens), profile_.take(), roofline_);
}

Result<StepFigure> StepBench::decode(int depth, int batch) {
  EngineStreams streams(engine_);
  for (int stream = 0; stream < batch; ++stream) {
    RETURN_IF_ERROR(streams.start(prompts_.ids(std::max(depth, 1), vocab_size_),
                                  internal::tokens_to_generate(options_, depth, batch)));
  }
  RETURN_IF_ERROR(streams.wait_for(1));
  const std::vector<int> before = streams.num_tokens();
  (void)profile_.take();
  RETURN_IF_ERROR(streams.wait_for(std::ranges::min(before) + options_.repetitions * options_.decode_tokens));
  return internal::break_down("decode at depth " + std::to_string(depth) + ", batch " + std::to_string(batch),
                              profile_.take(), roofline_);
}

std::string share_text(double share) { return format_figure(share * 100); }

json::object row_json(const ProfileRow& row, double step_ms) {
  return {{"name", row.name},           {"shape", row.shape},
          {"calls", row.calls},         {"ms", row.ms},
          {"share", row.ms / step_ms},  {"gb_per_s", row.gb_per_s},
          {"gop_per_s", row.gop_per_s}, {"roofline", row.roofline}};
}

std::string figure_text(const StepFigure& figure) {
  Table table({figure.what, "shape", "calls", "ms", "% of step", "GB/s", "Gop/s", "% of roofline"});
  for (const ProfileRow& row : figure.rows) {
    table.add_row({row.name, row.shape, format_figure(row.calls), format_figure(row.ms),
                   share_text(row.ms / figure.step_ms), format_figure(row.gb_per_s), format_figure(row.gop_per_s),
                   share_text(row.roofline)});
  }
  table.add_row({"step", "", "", format_figure(figure.step_ms), "100", "", "", ""});
  return table.text();
}

}  // namespace

namespace internal {

StepFigure break_down(std::string what, const StepTotals& totals, const Roofline& roofline) {
  StepFigure figure{.what = std::move(what), .steps = static_cast<double>(totals.steps), .step_ms = 0, .rows = {}};
  double in_operations = 0;
  for (const auto& [key, operation] : totals.operations) {
    if (operation.calls == 0) continue;
    figure.rows.push_back(operation_row(key, operation, figure.steps, roofline));
    in_operations += figure.rows.back().ms;
  }
  std::ranges::sort(figure.rows, std::ranges::greater{}, &ProfileRow::ms);
  const auto of_phase = [&](StepPhase phase) { return milliseconds(totals.of(phase)) / figure.steps; };
  figure.rows.push_back(rest_of_step("between operations", of_phase(StepPhase::kForward) - in_operations));
  for (const StepPhase phase : {StepPhase::kSample, StepPhase::kSend, StepPhase::kPublish, StepPhase::kCommands,
                                StepPhase::kSchedule, StepPhase::kBatch}) {
    figure.rows.push_back(rest_of_step(std::string(engine::phase_name(phase)), of_phase(phase)));
  }
  for (const ProfileRow& row : figure.rows) figure.step_ms += row.ms;
  return figure;
}

}  // namespace internal

Result<ProfileReport> run_profile_bench(EngineBenchOptions options, const server::Progress& progress) {
  if (const std::string device = kernels::describe_device().device; device != "cpu") {
    return fail(ErrorCode::kUnsupported,
                "a profile needs operations that run when they are called, as on a CPU; the device here is " + device);
  }
  if (options.engine.exact) {
    return fail(ErrorCode::kInvalidArgument,
                "a profile needs operations that run when they are called, and those of --exact are put off; leave one "
                "of them out",
                "exact");
  }
  options.engine.max_batch = options.batches.empty() ? 1 : std::ranges::max(options.batches);
  options.engine.max_queue = options.engine.max_batch;
  options.engine.prompt_cache_gb = 0;  // every prompt is to be computed
  const int threads = options.engine.threads > 0 ? options.engine.threads : kernels::cpu::num_usable_cores();
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(options.model, server::ModelPlaces::from_environment()));
  ProfileReport report;
  report.conditions = describe_here(describe_machine());
  progress("measuring the machine");
  ASSIGN_OR_RETURN(const kernels::cpu::Variant variant, kernels::cpu::chosen_variant());
  report.roofline = measure_roofline(variant, threads);

  const auto profile = std::make_shared<engine::StepProfile>();
  ASSIGN_OR_RETURN(
      const std::shared_ptr<server::ServedModel> model,
      server::load_served_model(location, {.alias = {}, .engine = options.engine, .profile = profile}, progress));
  for (Condition& condition : describe_engine(*model, options.engine)) {
    report.conditions.push_back(std::move(condition));
  }
  report.conditions.push_back({"repetitions", "repetitions", options.repetitions});
  report.conditions.push_back({"decode tokens", "decode_tokens", options.decode_tokens});
  report.conditions.push_back({"seed", "seed", options.seed});
  ASSIGN_OR_RETURN(report.figures, measure_steps(*model, *profile, options, report.roofline, progress));
  return report;
}

Result<std::vector<StepFigure>> measure_steps(const server::ServedModel& model, engine::StepProfile& profile,
                                              const EngineBenchOptions& options, const Roofline& roofline,
                                              const server::Progress& progress) {
  RETURN_IF_ERROR(internal::check_room(options, model.engine->stats()));
  StepBench bench(*model.engine, profile, options, roofline);
  std::vector<StepFigure> figures;
  progress("warming up");
  ASSIGN_OR_RETURN(const StepFigure ignored, bench.prefill(internal::kWarmUpPrompt));
  for (const int depth : options.depths) {
    for (const int batch : options.batches) {
      progress("decode at depth " + std::to_string(depth) + ", batch " + std::to_string(batch));
      ASSIGN_OR_RETURN(StepFigure figure, bench.decode(depth, batch));
      figures.push_back(std::move(figure));
    }
  }
  for (const int tokens : options.prefills) {
    progress("prefill of " + std::to_string(tokens));
    ASSIGN_OR_RETURN(StepFigure figure, bench.prefill(tokens));
    figures.push_back(std::move(figure));
  }
  return figures;
}

std::string to_text(const ProfileReport& report) {
  Table limits({"this machine at best", ""});
  limits.add_row({"reading memory, GB/s", format_figure(report.roofline.read_gb_per_s)});
  limits.add_row({"float32 multiply-adds, Gop/s", format_figure(report.roofline.float_gop_per_s)});
  limits.add_row({"int16 dot products, Gop/s", format_figure(report.roofline.int16_gop_per_s)});
  limits.add_row({"int8 dot products, Gop/s", format_figure(report.roofline.int8_gop_per_s)});
  std::string text = to_text(report.conditions) + '\n' + limits.text();
  for (const StepFigure& figure : report.figures) text += '\n' + figure_text(figure);
  return text;
}

json::object to_json(const ProfileReport& report) {
  json::array figures;
  for (const StepFigure& figure : report.figures) {
    json::array rows;
    for (const ProfileRow& row : figure.rows) rows.push_back(row_json(row, figure.step_ms));
    figures.push_back(json::object{
        {"what", figure.what}, {"steps", figure.steps}, {"step_ms", figure.step_ms}, {"rows", std::move(rows)}});
  }
  return {{"conditions", to_json(report.conditions)},
          {"roofline",
           {{"read_gb_per_s", report.roofline.read_gb_per_s},
            {"float_gop_per_s", report.roofline.float_gop_per_s},
            {"int16_gop_per_s", report.roofline.int16_gop_per_s},
            {"int8_gop_per_s", report.roofline.int8_gop_per_s}}},
          {"figures", std::move(figures)}};
}

}  // namespace redpoll::bench
