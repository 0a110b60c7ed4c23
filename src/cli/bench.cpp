// `redpoll bench`: how fast a model runs on this machine, and what clients of a server see.
#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "base/text.h"
#include "bench/engine_bench.h"
#include "bench/profile_bench.h"
#include "bench/serve_bench.h"
#include "cli/shared_flags.h"
#include "cli/verbs.h"

namespace redpoll::cli {
namespace {

constexpr WholeRange kPromptTokens = {1, 10'000'000};
constexpr WholeRange kDepths = {0, 10'000'000};
constexpr WholeRange kStreams = {1, 256};
constexpr WholeRange kRepetitions = {1, 1000};
constexpr WholeRange kSeeds = {0, std::numeric_limits<std::int64_t>::max()};

// "1,2,4", or "none".
Result<std::vector<int>> parse_list(std::string_view text, WholeRange range) {
  std::vector<int> numbers;
  if (text == "none") return numbers;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    ASSIGN_OR_RETURN(const std::int64_t number, parse_whole(rest.substr(0, comma), range));
    numbers.push_back(static_cast<int>(number));
    if (comma == std::string_view::npos) return numbers;
    rest.remove_prefix(comma + 1);
  }
}

std::string list_text(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

/// Lists that take the place of others if they are given.
struct GivenLists {
  std::optional<std::vector<int>> prefills;
  std::optional<std::vector<int>> batches;
  std::optional<std::vector<int>> depths;
};

Flag& add_list(FlagSet& flags, const std::string& name, std::optional<std::vector<int>>& target, WholeRange range,
               const std::string& description) {
  return flags.add({.name = name,
                    .value_name = "N,N,...",
                    .kind = FlagKind::kText,
                    .description = description,
                    .set = [&target, range](std::string_view text) -> Status {
                      ASSIGN_OR_RETURN(target, parse_list(text, range));
                      return {};
                    }});
}

// Lines that tell what is being done, beside the report.
void print_progress(std::string_view line) { std::cerr << printable(line) << '\n'; }

template <typename Report>
int print(const Result<Report>& report_or_error, bool as_json) {
  if (!report_or_error) return report(report_or_error.error());
  std::cout << (as_json ? dump_json(bench::to_json(*report_or_error)) + '\n' : bench::to_text(*report_or_error));
  return kExitFine;
}

struct EngineVerb {
  bench::EngineBenchOptions options;
  GivenLists given;
  bool profile = false;
  bool as_json = false;
};

struct ServeVerb {
  bench::ServeBenchOptions options;
  bool as_json = false;
};

int run_engine(const EngineVerb& verb) {
  if (const auto conflict = conflict_of(verb.options.engine)) return report_usage("bench", *conflict);
  configure_log({.level = LogLevel::kWarn});
  bench::EngineBenchOptions options = verb.options;
  if (verb.profile) {  // which has a table for each figure, so without being asked it measures few
    options.prefills = {options.engine.tokens_in_step()};
    options.batches = {1, 8};
    options.depths = {512};
  }
  options.prefills = verb.given.prefills.value_or(options.prefills);
  options.batches = verb.given.batches.value_or(options.batches);
  options.depths = verb.given.depths.value_or(options.depths);
  if (options.prefills.empty() && (options.batches.empty() || options.depths.empty())) {
    return report_usage("bench", "nothing to measure: --prefills is none, and --batches or --depths is");
  }
  if (verb.profile) return print(bench::run_profile_bench(std::move(options), print_progress), verb.as_json);
  return print(bench::run_engine_bench(std::move(options), print_progress), verb.as_json);
}

int run_serve(const ServeVerb& verb) {
  if (const auto conflict = conflict_of(verb.options.engine)) return report_usage("bench serve", *conflict);
  if (!verb.options.url.empty() && verb.options.engine != server::EngineSettings{}) {
    return report_usage("bench serve",
                        "the flags under Engine are for a server that is started, not for one at a --url");
  }
  if (verb.options.cache_hit_ratio < 1 && verb.options.shared_prefix == 0) {
    return report_usage("bench serve", "--cache-hit-ratio is of requests that begin with a --shared-prefix");
  }
  configure_log({.level = LogLevel::kWarn});
  return print(bench::run_serve_bench(verb.options, print_progress), verb.as_json);
}

void add_load_flags(FlagSet& flags, bench::ServeBenchOptions& options) {
  flags.group("Load");
  flags.whole("--streams", options.streams, {1, 1000}, "Clients at once, each one request after the other");
  flags.whole("--requests", options.requests, {1, 1'000'000}, "In all").or_else("two for each stream");
  flags.whole("--prompt-words", options.prompt_words, {1, 1'000'000},
              "Random words of each prompt, about as many tokens");
  flags
      .whole("--warm-up-words", options.warm_up_words, {1, 1'000'000},
             "Random words of the request beforehand, which is not measured")
      .or_else("as --prompt-words");
  flags.whole("--shared-prefix", options.shared_prefix, {0, 1'000'000},
              "Words before these, the same for the requests that --cache-hit-ratio says");
  flags
      .number("--cache-hit-ratio", options.cache_hit_ratio, {0, 1},
              "Share of the requests that begin with the shared words; the others have words of their own there")
      .or_else("1");
  flags.whole("--max-tokens", options.max_tokens, {1, 1'000'000}, "Tokens of each answer");
  flags.whole("--interfere-tokens", options.interfere_tokens, {0, 1'000'000},
              "Also measure what a prompt of so many words does to streams that generate; 0: do not");
  flags.whole("--seed", options.seed, kSeeds, "Of the words");
}

}  // namespace

void add_bench(CommandLine& command_line) {
  const auto verb = std::make_shared<EngineVerb>();
  FlagSet& flags = command_line.add_verb("bench", "Measure the speed of a model", [verb] { return run_engine(*verb); });
  bench::EngineBenchOptions& options = verb->options;
  flags.group("Model");
  add_model_flag(flags, options.model);
  flags.group("What to measure");
  add_list(flags, "--prefills", verb->given.prefills, kPromptTokens, "Lengths of prompts, each computed alone; or none")
      .or_else(list_text(options.prefills));
  add_list(flags, "--batches", verb->given.batches, kStreams, "Streams that generate at once; or none")
      .or_else(list_text(options.batches));
  add_list(flags, "--depths", verb->given.depths, kDepths, "Tokens before those that are generated; or none")
      .or_else(list_text(options.depths));
  flags.whole("--decode-tokens", options.decode_tokens, {1, 100'000}, "Tokens that each stream generates to be timed");
  flags.whole("--repetitions", options.repetitions, kRepetitions, "Of each figure; shown are median, least and most");
  flags.whole("--seed", options.seed, kSeeds, "Of the prompts, which are random token ids");
  flags.toggle("--profile", verb->profile,
               "Where the time of a step goes, by operation: at batches 1 and 8, depth 512, and in a prompt of a step, "
               "unless --batches, --depths and --prefills say otherwise");
  flags.toggle("--json", verb->as_json, "Print one object: conditions, prefill, decode; or roofline, figures");
  add_engine_flags(flags, options.engine, Batching::kOne);
  flags.whole("--step-tokens", options.engine.step_tokens, {16, 65'536}, "Tokens computed in one step")
      .or_else("256, or twice the largest batch if that is more");
}

void add_bench_serve(CommandLine& command_line) {
  const auto verb = std::make_shared<ServeVerb>();
  FlagSet& flags =
      command_line.add_verb("bench serve", "Measure what clients of a server see", [verb] { return run_serve(*verb); });
  bench::ServeBenchOptions& options = verb->options;
  flags.group("Model");
  add_model_flag(flags, options.model);
  flags.text("--url", "URL", options.url, "A server that runs, which --model is then an id of, else the first it lists")
      .or_else("one is started on a free port");
  add_load_flags(flags, options);
  flags.toggle("--json", verb->as_json,
               "Print one object: conditions, ttft_ms, between_tokens_ms, rates, interference");
  add_engine_flags(flags, options.engine, Batching::kMany);
}

}  // namespace redpoll::cli
