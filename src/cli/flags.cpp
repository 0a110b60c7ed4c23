#include "cli/flags.h"

#include "cli/command_line.h"

namespace redpoll::cli {
namespace {

// A flag whose value stays absent unless it is given.
template <typename T>
void add_optional(CLI::App& app, const std::string& name, std::optional<T>& value, double min, double max,
                  const std::string& description) {
  app.add_option_function<T>(
         name, [&value](const T& given) { value = given; }, description)
      ->envname(environment_name(name))
      ->check(CLI::Range(min, max))
      ->take_last();
}

constexpr double kMaxTokens = 1e9;

}  // namespace

void add_engine_flags(CLI::App& app, server::EngineSettings& settings, Batching batching) {
  if (batching == Batching::kMany) {
    add_flag_value(app, "--max-batch", settings.max_batch, "Sequences computed in one step")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    add_flag_value(app, "--max-queue", settings.max_queue, "Requests that may wait; more are refused with 429")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    add_flag_value(app, "--step-tokens", settings.step_tokens,
                   "Tokens computed in one step: fewer keep streams smoother while a long prompt comes in")
        ->check(CLI::Range(16, 65536))
        ->capture_default_str();
  }
  add_flag_value(app, "--context-length", settings.context_length, "Longest prompt and answer, in tokens [the model's]")
      ->check(CLI::Range(16, static_cast<int>(kMaxTokens)));
  add_flag_value(app, "--memory-budget", settings.memory_budget_gb,
                 "GiB for weights and cache together [75 % of memory]")
      ->check(CLI::Range(0.01, 1e6));
  add_flag_value(app, "--threads", settings.threads, "Threads for kernels [physical cores]")
      ->check(CLI::Range(1, 1024));
}

void add_sampling_flags(CLI::App& app, api::GenerationOptions& options) {
  auto& sampling = options.sampling;
  add_optional(app, "--temperature", sampling.temperature, 0, 2, "0 always takes the likeliest token");
  add_optional(app, "--top-p", sampling.top_p, 0, 1, "Keep the likeliest tokens of this total probability");
  add_optional(app, "--top-k", sampling.top_k, 0, kMaxTokens, "Keep this many likeliest tokens; 0 keeps all");
  add_optional(app, "--min-p", sampling.min_p, 0, 1, "Keep tokens at least this likely, relative to the likeliest");
  add_optional(app, "--typical-p", sampling.typical_p, 0, 1, "Keep tokens of typical information up to this total");
  add_optional(app, "--xtc-probability", sampling.xtc_probability, 0, 1, "Chance to drop the likeliest tokens");
  add_optional(app, "--xtc-threshold", sampling.xtc_threshold, 0, 0.5, "Probability from which XTC drops tokens");
  add_optional(app, "--repetition-penalty", sampling.repetition_penalty, 0.01, 10, "Over 1 makes repeats less likely");
  add_optional(app, "--repetition-context-size", sampling.repetition_context_size, 0, kMaxTokens,
               "Last tokens that the repetition penalty looks at");
  add_optional(app, "--presence-penalty", sampling.presence_penalty, -2, 2, "Taken from tokens already generated");
  add_optional(app, "--frequency-penalty", sampling.frequency_penalty, -2, 2, "The same, times how often");
  app.add_option_function<std::int64_t>(
         "--seed", [&sampling](std::int64_t seed) { sampling.seed = static_cast<std::uint64_t>(seed); },
         "The same seed gives the same answer")
      ->envname(environment_name("--seed"))
      ->take_last();
  add_optional(app, "--max-tokens", options.max_tokens, 1, kMaxTokens, "Tokens to generate at most");
  app.add_option("--stop", options.stop, "Text that ends the answer; may be repeated")->expected(1)->take_all();
}

void add_log_flags(CLI::App& app, LogLevel& level, LogFormat& format) {
  const auto flag = [&app](const std::string& name, auto parse, auto& target, const std::string& description) {
    app.add_option_function<std::string>(
           name,
           [name, parse, &target](const std::string& given) {
             auto parsed = parse(given);
             if (!parsed) throw CLI::ValidationError(name, parsed.error().message);
             target = *parsed;
           },
           description)
        ->envname(environment_name(name))
        ->take_last();
  };
  flag("--log-level", parse_log_level, level, "trace, debug, info, warn, error or off [info]");
  flag("--log-format", parse_log_format, format, "text or json, one line per event [text]");
}

}  // namespace redpoll::cli
