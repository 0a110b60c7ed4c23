// `redpoll bench`: how fast a model runs on this machine.
#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>

#include "bench/engine_bench.h"
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

void add_list(FlagSet& flags, const std::string& name, std::vector<int>& target, WholeRange range,
              const std::string& description) {
  flags
      .add({.name = name,
            .value_name = "N,N,...",
            .kind = FlagKind::kText,
            .description = description,
            .set = [&target, range](std::string_view text) -> Status {
              ASSIGN_OR_RETURN(target, parse_list(text, range));
              return {};
            }})
      .or_else(list_text(target));
}

// Lines that tell what is being done, beside the report.
void print_progress(std::string_view line) { std::cerr << line << '\n'; }

template <typename Report>
int print(const Result<Report>& report_or_error, bool as_json) {
  if (!report_or_error) return report(report_or_error.error());
  std::cout << (as_json ? dump_json(bench::to_json(*report_or_error)) + '\n' : bench::to_text(*report_or_error));
  return kExitFine;
}

struct EngineVerb {
  bench::EngineBenchOptions options;
  bool as_json = false;
};

}  // namespace

void add_bench(CommandLine& command_line) {
  const auto verb = std::make_shared<EngineVerb>();
  FlagSet& flags = command_line.add_verb("bench", "Measure the speed of a model", [verb] {
    configure_log({.level = LogLevel::kWarn});
    return print(bench::run_engine_bench(verb->options, print_progress), verb->as_json);
  });
  bench::EngineBenchOptions& options = verb->options;
  flags.group("Model");
  add_model_flag(flags, options.model);
  flags.group("What to measure");
  add_list(flags, "--prefills", options.prefills, kPromptTokens, "Lengths of prompts, each computed alone; or none");
  add_list(flags, "--batches", options.batches, kStreams, "Streams that generate at once; or none");
  add_list(flags, "--depths", options.depths, kDepths, "Tokens before those that are generated");
  flags.whole("--decode-tokens", options.decode_tokens, {1, 100'000}, "Tokens that each stream generates to be timed");
  flags.whole("--repetitions", options.repetitions, kRepetitions, "Of each figure; shown are median, least and most");
  flags.whole("--seed", options.seed, kSeeds, "Of the prompts, which are random token ids");
  flags.toggle("--json", verb->as_json, "Print one object: conditions, prefill, decode");
  add_engine_flags(flags, options.engine, Batching::kOne);
  flags.whole("--step-tokens", options.engine.step_tokens, {16, 65'536}, "Tokens computed in one step");
}

}  // namespace redpoll::cli
