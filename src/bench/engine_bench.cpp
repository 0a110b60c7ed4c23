#include "bench/engine_bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "bench/engine_streams.h"
#include "bench/prompts.h"
#include "bench/table.h"
#include "cache/cache_groups.h"
#include "server/model_locator.h"

namespace redpoll::bench {
namespace {

constexpr int kWarmUpTokens = 8;

// Whole steps until all prompts are computed: streams that are done before generate meanwhile.
int steps_to_start(const EngineBenchOptions& options, int depth, int batch) {
  const std::int64_t tokens = std::int64_t{batch} * std::max(depth, 1) + batch;
  constexpr std::int64_t kMany = 1 << 30;  // more than any context
  return static_cast<int>(std::min(tokens / std::max(options.engine.tokens_in_step() - batch, 1), kMany)) + batch + 1;
}

Status check_context(const std::string& what, int needed, const engine::EngineStats& stats) {
  if (needed <= stats.context.tokens) return {};
  return fail(ErrorCode::kInvalidArgument, what + " needs a context of " + std::to_string(needed) +
                                               " tokens; this model, as loaded, has " +
                                               std::to_string(stats.context.tokens));
}

Status check_cache(const EngineBenchOptions& options, int depth, int batch, const engine::EngineStats& stats) {
  const int tokens = std::max(depth, 1) + internal::tokens_to_generate(options, depth, batch);
  for (const engine::KvGroupStats& group : stats.kv_groups) {
    const int all = (tokens + stats.block_tokens - 1) / stats.block_tokens;
    const int each = group.window == 0 ? all : std::min(all, cache::blocks_spanned(group.window, stats.block_tokens));
    const std::int64_t blocks = std::int64_t{batch} * (group.kind == cache::CacheKind::kRecurrent ? 1 : each);
    if (blocks <= group.blocks_total) continue;
    return fail(ErrorCode::kInvalidArgument, "a batch of " + std::to_string(batch) + " at depth " +
                                                 std::to_string(depth) + " needs " + std::to_string(blocks) +
                                                 " cache blocks, there are " + std::to_string(group.blocks_total) +
                                                 ": raise --memory-budget, or ask for less with --batches or --depths");
  }
  return {};
}

}  // namespace

namespace internal {

int tokens_to_generate(const EngineBenchOptions& options, int depth, int batch) {
  return steps_to_start(options, depth, batch) + (options.repetitions + 1) * options.decode_tokens;
}

Status check_room(const EngineBenchOptions& options, const engine::EngineStats& stats) {
  for (const int tokens : options.prefills) {
    RETURN_IF_ERROR(check_context("a prompt of " + std::to_string(tokens), tokens + 1, stats));
  }
  for (const int batch : options.batches) {
    for (const int depth : options.depths) {
      const int needed = std::max(depth, 1) + tokens_to_generate(options, depth, batch);
      const std::string generated = std::to_string(needed - std::max(depth, 1));
      RETURN_IF_ERROR(check_context("generating " + generated +
                                        " tokens, as --repetitions and --decode-tokens ask, at depth " +
                                        std::to_string(depth),
                                    needed, stats));
      RETURN_IF_ERROR(check_cache(options, depth, batch, stats));
    }
  }
  return {};
}

}  // namespace internal

namespace {

class EngineBench {
 public:
  EngineBench(engine::Engine& engine, const EngineBenchOptions& options)
      : engine_(engine), options_(options), stats_(engine.stats()), prompts_(options.seed) {}

  Status warm_up();
  Result<PrefillFigure> prefill(int tokens);
  Result<DecodeFigure> decode(int depth, int batch);

 private:
  [[nodiscard]] Bandwidth bandwidth(double steps_per_s, double kv_bytes_per_step) const;

  engine::Engine& engine_;
  const EngineBenchOptions& options_;
  engine::EngineStats stats_;
  PromptSource prompts_;
};

Status EngineBench::warm_up() {
  EngineStreams streams(engine_);
  RETURN_IF_ERROR(streams.start(prompts_.ids(internal::kWarmUpPrompt, stats_.vocab_size), kWarmUpTokens));
  return streams.wait_for(kWarmUpTokens);
}

Result<PrefillFigure> EngineBench::prefill(int tokens) {
  std::vector<double> times_ms;
  for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
    EngineStreams streams(engine_);
    std::vector<TokenId> prompt = prompts_.ids(tokens, stats_.vocab_size);
    const Clock::TimePoint started_at = system_clock().now();
    RETURN_IF_ERROR(streams.start(std::move(prompt), 1));
    RETURN_IF_ERROR(streams.wait_for(1));
    times_ms.push_back(milliseconds_between(started_at, system_clock().now()));
  }
  std::vector<double> rates;
  for (const double ms : times_ms) rates.push_back(tokens / ms * 1000);
  const double median_ms = spread_of(times_ms).median;
  const int step_tokens = options_.engine.tokens_in_step();
  const int steps = (tokens + step_tokens - 1) / step_tokens;
  // Each step reads what the steps before have written.
  double kv_bytes = 0;
  for (int first = 0; first < tokens; first += step_tokens) {
    const int last = std::min(first + step_tokens, tokens);
    kv_bytes += kv_bytes_read(stats_, last, last - first);
  }
  return PrefillFigure{.tokens = tokens,
                       .tokens_per_s = spread_of(rates),
                       .median_ms = median_ms,
                       .bandwidth = bandwidth(steps / median_ms * 1000, kv_bytes / steps)};
}

// The repetitions follow one another in the same streams, so that a deep prompt is computed once: the last stands
// (repetitions - 1) * decode_tokens deeper than the first.
Result<DecodeFigure> EngineBench::decode(int depth, int batch) {
  EngineStreams streams(engine_);
  for (int stream = 0; stream < batch; ++stream) {
    RETURN_IF_ERROR(streams.start(prompts_.ids(std::max(depth, 1), stats_.vocab_size),
                                  internal::tokens_to_generate(options_, depth, batch)));
  }
  RETURN_IF_ERROR(streams.wait_for(1));
  std::vector<double> rates;
  std::vector<double> steps_ms;
  for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
    const std::vector<int> before = streams.num_tokens();
    const Clock::TimePoint started_at = system_clock().now();
    // All streams move in the same steps, so the one that is behind tells when the repetition is over.
    RETURN_IF_ERROR(streams.wait_for(std::ranges::min(before) + options_.decode_tokens));
    const double ms = milliseconds_between(started_at, system_clock().now());
    const std::vector<int> after = streams.num_tokens();
    const int num_tokens =
        std::accumulate(after.begin(), after.end(), 0) - std::accumulate(before.begin(), before.end(), 0);
    rates.push_back(num_tokens / ms * 1000);
    steps_ms.push_back(ms * batch / num_tokens);
  }
  const engine::EngineStats now = engine_.stats();
  if (now.preemptions != stats_.preemptions) {
    return fail(ErrorCode::kInternal, "streams were preempted while they were measured");
  }
  const double mean_depth = std::max(depth, 1) + options_.repetitions * options_.decode_tokens / 2.0;
  const double median_step_ms = spread_of(steps_ms).median;
  return DecodeFigure{.depth = depth,
                      .batch = batch,
                      .tokens_per_s = spread_of(rates),
                      .median_step_ms = median_step_ms,
                      .bandwidth = bandwidth(1000 / median_step_ms, batch * kv_bytes_read(stats_, mean_depth, 1))};
}

Bandwidth EngineBench::bandwidth(double steps_per_s, double kv_bytes_per_step) const {
  const auto weight_bytes = static_cast<double>(stats_.weight_bytes);
  return {.weights_gb_per_s = weight_bytes * steps_per_s / 1e9,
          .with_kv_gb_per_s = (weight_bytes + kv_bytes_per_step) * steps_per_s / 1e9};
}

json::object spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

}  // namespace

Result<EngineBenchReport> run_engine_bench(EngineBenchOptions options, const server::Progress& progress) {
  options.engine.max_batch = options.batches.empty() ? 1 : std::ranges::max(options.batches);
  options.engine.max_queue = options.engine.max_batch;
  options.engine.prompt_cache_gb = 0;  // every prompt is to be computed
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(options.model, server::ModelPlaces::from_environment()));
  ASSIGN_OR_RETURN(const std::shared_ptr<server::ServedModel> model,
                   server::load_served_model(location, {.alias = {}, .engine = options.engine}, progress));
  return measure_engine(*model, options, progress);
}

Result<EngineBenchReport> measure_engine(const server::ServedModel& model, const EngineBenchOptions& options,
                                         const server::Progress& progress) {
  RETURN_IF_ERROR(internal::check_room(options, model.engine->stats()));
  EngineBenchReport report;
  report.conditions = describe_here(describe_machine());
  for (Condition& condition : describe_engine(model, options.engine)) report.conditions.push_back(std::move(condition));
  report.conditions.push_back({"repetitions", "repetitions", options.repetitions});
  report.conditions.push_back({"decode tokens", "decode_tokens", options.decode_tokens});
  report.conditions.push_back({"seed", "seed", options.seed});

  EngineBench bench(*model.engine, options);
  progress("warming up");
  RETURN_IF_ERROR(bench.warm_up());
  for (const int tokens : options.prefills) {
    progress("prefill of " + std::to_string(tokens));
    ASSIGN_OR_RETURN(const PrefillFigure figure, bench.prefill(tokens));
    report.prefill.push_back(figure);
  }
  for (const int depth : options.depths) {
    for (const int batch : options.batches) {
      progress("decode at depth " + std::to_string(depth) + ", batch " + std::to_string(batch));
      ASSIGN_OR_RETURN(const DecodeFigure figure, bench.decode(depth, batch));
      report.decode.push_back(figure);
    }
  }
  return report;
}

std::string to_text(const EngineBenchReport& report) {
  std::string text = to_text(report.conditions);
  if (!report.prefill.empty()) {
    Table table({"prefill", "tok/s", "min", "max", "ms", "weights GB/s", "with KV"});
    for (const PrefillFigure& figure : report.prefill) {
      table.add_row({std::to_string(figure.tokens), format_figure(figure.tokens_per_s.median),
                     format_figure(figure.tokens_per_s.min), format_figure(figure.tokens_per_s.max),
                     format_figure(figure.median_ms), format_figure(figure.bandwidth.weights_gb_per_s),
                     format_figure(figure.bandwidth.with_kv_gb_per_s)});
    }
    text += '\n' + table.text();
  }
  if (!report.decode.empty()) {
    Table table({"decode at depth", "batch", "tok/s", "min", "max", "ms a step", "weights GB/s", "with KV"});
    for (const DecodeFigure& figure : report.decode) {
      table.add_row({std::to_string(figure.depth), std::to_string(figure.batch),
                     format_figure(figure.tokens_per_s.median), format_figure(figure.tokens_per_s.min),
                     format_figure(figure.tokens_per_s.max), format_figure(figure.median_step_ms),
                     format_figure(figure.bandwidth.weights_gb_per_s),
                     format_figure(figure.bandwidth.with_kv_gb_per_s)});
    }
    text += '\n' + table.text();
  }
  return text;
}

json::object to_json(const EngineBenchReport& report) {
  json::array prefill;
  for (const PrefillFigure& figure : report.prefill) {
    prefill.push_back(json::object{{"tokens", figure.tokens},
                                   {"tokens_per_s", spread_json(figure.tokens_per_s)},
                                   {"median_ms", figure.median_ms},
                                   {"weights_gb_per_s", figure.bandwidth.weights_gb_per_s},
                                   {"with_kv_gb_per_s", figure.bandwidth.with_kv_gb_per_s}});
  }
  json::array decode;
  for (const DecodeFigure& figure : report.decode) {
    decode.push_back(json::object{{"depth", figure.depth},
                                  {"batch", figure.batch},
                                  {"tokens_per_s", spread_json(figure.tokens_per_s)},
                                  {"median_step_ms", figure.median_step_ms},
                                  {"weights_gb_per_s", figure.bandwidth.weights_gb_per_s},
                                  {"with_kv_gb_per_s", figure.bandwidth.with_kv_gb_per_s}});
  }
  return {{"conditions", to_json(report.conditions)}, {"prefill", std::move(prefill)}, {"decode", std::move(decode)}};
}

}  // namespace redpoll::bench
