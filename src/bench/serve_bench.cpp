#include "bench/serve_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/prompts.h"
#include "bench/table.h"
#include "server/app.h"
#include "server/app_context.h"

namespace redpoll::bench {
namespace {

/// Tokens of each stream: the long prompt comes in after a quarter of them.
constexpr int kLeastInterfered = 4;

int num_requests(const ServeBenchOptions& options) {
  return options.requests > 0 ? options.requests : 2 * options.streams;
}

Result<std::unique_ptr<server::App>> start_server(const ServeBenchOptions& options, const server::Progress& progress) {
  server::ServerOptions server_options;
  server_options.port = 0;
  server_options.model = options.model;
  server_options.engine = options.engine;
  server_options.web_page = false;
  return server::App::start(server_options, progress);
}

void add_load_conditions(Conditions& conditions, const ServeBenchOptions& options, const LoadOptions& load) {
  conditions.push_back({"URL", "url", json::string(options.url.empty() ? "a server of its own" : options.url)});
  if (!options.url.empty()) conditions.push_back({"model", "model", json::string(load.model)});
  conditions.push_back({"streams", "streams", options.streams});
  conditions.push_back({"requests", "requests", num_requests(options)});
  conditions.push_back({"words of a prompt", "prompt_words", options.prompt_words});
  conditions.push_back({"words of the first request", "warm_up_words",
                        options.warm_up_words > 0 ? options.warm_up_words : options.prompt_words});
  conditions.push_back({"shared words before", "shared_prefix", options.shared_prefix});
  conditions.push_back({"share with these", "cache_hit_ratio", options.cache_hit_ratio});
  conditions.push_back({"tokens of an answer at most", "max_tokens", options.max_tokens});
  conditions.push_back({"words that interfere", "interfere_tokens", options.interfere_tokens});
  conditions.push_back({"seed", "seed", options.seed});
}

void add_percentiles(Table& table, const std::string& name, const Percentiles& figures) {
  table.add_row({name, format_figure(figures.p50), format_figure(figures.p90), format_figure(figures.p99),
                 format_figure(figures.max)});
}

}  // namespace

namespace internal {

std::vector<std::string> make_prompts(const ServeBenchOptions& options) {
  PromptSource source(options.seed);
  const auto begin_with = [](const std::string& prefix, const std::string& words) {
    return prefix.empty() ? words : prefix + ' ' + words;
  };
  const std::string shared = source.words(options.shared_prefix);
  const int warm_up_words = options.warm_up_words > 0 ? options.warm_up_words : options.prompt_words;
  std::vector<std::string> prompts = {begin_with(shared, source.words(warm_up_words))};
  for (int i = 0; i < num_requests(options); ++i) {
    // Whole numbers are passed as often as the ratio says, evenly spread.
    const bool hit = std::floor((i + 1) * options.cache_hit_ratio) > std::floor(i * options.cache_hit_ratio);
    const std::string prefix = hit ? shared : source.words(options.shared_prefix);
    prompts.push_back(begin_with(prefix, source.words(options.prompt_words)));
  }
  return prompts;
}

ServeBenchReport summarize(const LoadResult& result) {
  std::vector<double> ttft;
  std::vector<double> between;
  std::vector<double> total;
  double prompt_tokens = 0;
  double cached_tokens = 0;
  double output_tokens = 0;
  for (const RequestSample& sample : result.samples) {
    ttft.push_back(sample.ttft_ms);
    between.insert(between.end(), sample.between_tokens_ms.begin(), sample.between_tokens_ms.end());
    total.push_back(sample.total_ms);
    prompt_tokens += sample.prompt_tokens;
    cached_tokens += sample.cached_tokens;
    output_tokens += sample.completion_tokens;
  }
  const auto num_samples = static_cast<double>(result.samples.size());
  return {.conditions = {},
          .ttft_ms = percentiles_of(std::move(ttft)),
          .between_tokens_ms = percentiles_of(std::move(between)),
          .total_ms = percentiles_of(std::move(total)),
          .requests = static_cast<int>(result.samples.size()),
          .prompt_tokens = prompt_tokens / num_samples,
          .output_tokens = output_tokens / num_samples,
          .cached_share = prompt_tokens > 0 ? cached_tokens / prompt_tokens : 0,
          .output_tokens_per_s = output_tokens / result.wall_ms * 1000,
          .prompt_tokens_per_s = prompt_tokens / result.wall_ms * 1000,
          .interference = {}};
}

std::vector<InterferencePrompts> make_interference(const ServeBenchOptions& options) {
  constexpr int kRounds = 3;
  PromptSource source(options.seed + 1);  // nothing that was asked before
  std::vector<InterferencePrompts> rounds(kRounds);
  for (InterferencePrompts& round : rounds) {
    for (int i = 0; i < options.streams; ++i) round.streams.push_back(source.words(options.prompt_words));
    round.intruder = source.words(options.interfere_tokens);
  }
  return rounds;
}

}  // namespace internal

Result<ServeBenchReport> run_serve_bench(ServeBenchOptions options, const server::Progress& progress) {
  if (options.url.empty() && options.interfere_tokens > 0 && options.streams >= options.engine.max_batch) {
    return fail(ErrorCode::kInvalidArgument,
                "the long prompt needs a place beside the streams: expected --streams below --max-batch, which is " +
                    std::to_string(options.engine.max_batch) + ", got " + std::to_string(options.streams),
                "streams");
  }
  if (options.interfere_tokens > 0 && options.max_tokens < kLeastInterfered) {
    return fail(
        ErrorCode::kInvalidArgument,
        "streams that a long prompt interferes with need tokens before it and after: expected --max-tokens of " +
            std::to_string(kLeastInterfered) + " or more, got " + std::to_string(options.max_tokens),
        "max_tokens");
  }
  options.engine.max_queue = std::max(options.engine.max_queue, options.streams + 1);
  Conditions conditions = describe_here(describe_machine());
  std::unique_ptr<server::App> app;
  LoadOptions load;
  load.streams = options.streams;
  load.max_tokens = options.max_tokens;
  if (options.url.empty()) {
    ASSIGN_OR_RETURN(app, start_server(options, progress));
    ASSIGN_OR_RETURN(load.url, http::parse_url(app->base_url()));
    load.model = app->context().model->id;
    for (Condition& condition : describe_engine(*app->context().model, options.engine)) {
      conditions.push_back(std::move(condition));
    }
  } else {
    ASSIGN_OR_RETURN(load.url, http::parse_url(options.url));
    load.model = options.model;
    if (load.model.empty()) {
      ASSIGN_OR_RETURN(load.model, first_model(load));
    }
  }
  add_load_conditions(conditions, options, load);

  std::vector<std::string> prompts = internal::make_prompts(options);
  progress("warming up");
  ASSIGN_OR_RETURN(const LoadResult ignored, run_load(load, {prompts.front()}));
  prompts.erase(prompts.begin());
  progress("sending " + std::to_string(prompts.size()) + " requests in " + std::to_string(options.streams) +
           " streams");
  ASSIGN_OR_RETURN(const LoadResult result, run_load(load, prompts));
  ServeBenchReport report = internal::summarize(result);
  report.conditions = std::move(conditions);
  if (options.interfere_tokens > 0) {
    progress("interfering with a prompt of " + std::to_string(options.interfere_tokens));
    ASSIGN_OR_RETURN(report.interference, measure_interference(load, internal::make_interference(options)));
  }
  return report;
}

std::string to_text(const ServeBenchReport& report) {
  Table times({"milliseconds", "p50", "p90", "p99", "max"});
  add_percentiles(times, "first token", report.ttft_ms);
  add_percentiles(times, "between tokens", report.between_tokens_ms);
  add_percentiles(times, "whole answer", report.total_ms);
  Table totals({"all streams together", ""});
  totals.add_row({"generated tok/s", format_figure(report.output_tokens_per_s)});
  totals.add_row({"prompt tok/s", format_figure(report.prompt_tokens_per_s)});
  totals.add_row({"tokens of a prompt", format_figure(report.prompt_tokens)});
  totals.add_row({"tokens of an answer", format_figure(report.output_tokens)});
  totals.add_row({"of these cached, %", format_figure(report.cached_share * 100)});
  std::string text = to_text(report.conditions) + '\n' + times.text() + '\n' + totals.text();
  if (report.interference) text += '\n' + to_text(*report.interference);
  return text;
}

json::object to_json(const ServeBenchReport& report) {
  json::object object = {{"conditions", to_json(report.conditions)},
                         {"requests", report.requests},
                         {"ttft_ms", to_json(report.ttft_ms)},
                         {"between_tokens_ms", to_json(report.between_tokens_ms)},
                         {"total_ms", to_json(report.total_ms)},
                         {"output_tokens_per_s", report.output_tokens_per_s},
                         {"prompt_tokens_per_s", report.prompt_tokens_per_s},
                         {"prompt_tokens", report.prompt_tokens},
                         {"output_tokens", report.output_tokens},
                         {"cached_share", report.cached_share}};
  if (report.interference) object["interference"] = to_json(*report.interference);
  return object;
}

}  // namespace redpoll::bench
