#include "cli/shared_flags.h"

#include <limits>

namespace redpoll::cli {
namespace {

constexpr std::int64_t kMaxTokens = 1'000'000'000;
constexpr std::size_t kMaxStopStrings = 16;  // as in a request

void add_stop_flag(FlagSet& flags, std::vector<std::string>& stop) {
  Flag& flag = flags.list("--stop", "TEXT", stop, "Text that ends the answer and is not part of it");
  flag.set = [&stop, append = flag.set](std::string_view text) -> Status {
    if (stop.size() == kMaxStopStrings) {
      return fail(ErrorCode::kInvalidArgument, "expected at most " + std::to_string(kMaxStopStrings) + " of them");
    }
    return append(text);
  };
}

// The disk cache takes what the prompt cache gives up, and its other flags say something of its folder.
std::optional<std::string> ssd_cache_conflict(const server::EngineSettings& settings) {
  if (settings.ssd_cache.empty()) {
    if (settings.ssd_cache_max_gb) return "--ssd-cache-max bounds the files in a folder that --ssd-cache must name";
    if (settings.ssd_cache_verify) return "--ssd-cache-verify checks the files in a folder that --ssd-cache must name";
    return std::nullopt;
  }
  const std::string purpose = "--ssd-cache keeps what the prompt cache gives up, and ";
  if (settings.exact) return purpose + "with --exact there is none; leave one of them out";
  if (settings.prompt_cache_gb == 0) return purpose + "with --prompt-cache 0 there is none; leave one of them out";
  return std::nullopt;
}

// --- What changes the memory that a model takes, each once ---

void add_max_batch_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags.whole("--max-batch", settings.max_batch, {1, 256}, "Sequences computed in one step");
}

void add_step_tokens_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags
      .whole("--step-tokens", settings.step_tokens, {16, 65'536},
             "Tokens computed in one step; fewer keep streams smoother while a long prompt comes in")
      .or_else("256, or twice --max-batch if that is more; with --exact 4,096 and --max-batch");
}

void add_memory_budget_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags.number("--memory-budget", settings.memory_budget_gb, {0.01, 1e6}, "GiB for weights, cache and a step together")
      .or_else("75 % of memory")
      .value_name = "GB";
}

void add_prompt_cache_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags
      .number("--prompt-cache", settings.prompt_cache_gb, {0, 1e6},
              "GiB of that to keep prompts in that may come again; 0 keeps none")
      .or_else("2; with --exact none")
      .value_name = "GB";
}

void add_ssd_cache_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags.text("--ssd-cache", "DIR", settings.ssd_cache, "Folder to keep prompts in beyond that, and over restarts")
      .or_else("none");
}

void add_kv_quant_flag(FlagSet& flags, server::EngineSettings& settings) {
  add_choice(flags, "--kv-quant", settings.kv_quantization, kernels::parse_kv_quantization,
             "Keys and values in codes of 8 or 4 bits, or as the model's kv_config.json says (config); rounds, but a "
             "context takes half of the memory or less")
      .or_else("off");
}

void add_exact_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags.toggle(
      "--exact", settings.exact,
      "Compute the logits that mlx-lm computes with the same MLX, or on a CPU with --kv-quant mlx-optiq, bit for "
      "bit; many times slower");
}

}  // namespace

void add_model_flag(FlagSet& flags, std::string& model) {
  flags
      .text(
          "--model", "M", model,
          "A folder with config.json, a .gguf file, org/name in the local Hugging Face cache, or a unique part of one")
      .or_else("the starter model");
  flags.take_argument("MODEL", "--model");
}

void add_context_length_flag(FlagSet& flags, server::EngineSettings& settings) {
  flags.whole("--context-length", settings.context_length, {16, kMaxTokens}, "Longest prompt and answer, in tokens")
      .or_else("the model's, as memory allows");
}

void add_memory_flags(FlagSet& flags, server::EngineSettings& settings) {
  add_max_batch_flag(flags, settings);
  add_step_tokens_flag(flags, settings);
  add_memory_budget_flag(flags, settings);
  add_prompt_cache_flag(flags, settings);
  add_ssd_cache_flag(flags, settings);
  add_kv_quant_flag(flags, settings);
  add_exact_flag(flags, settings);
}

void add_engine_flags(FlagSet& flags, server::EngineSettings& settings, Batching batching) {
  flags.group("Engine");
  if (batching == Batching::kMany) {
    add_max_batch_flag(flags, settings);
    flags.whole("--max-queue", settings.max_queue, {1, 100'000}, "Requests that may wait; more are refused with 429");
    add_step_tokens_flag(flags, settings);
  }
  add_context_length_flag(flags, settings);
  add_memory_budget_flag(flags, settings);
  if (batching == Batching::kMany) {
    add_prompt_cache_flag(flags, settings);
    add_ssd_cache_flag(flags, settings);
    flags.number("--ssd-cache-max", settings.ssd_cache_max_gb, {0.001, 1e6}, "GiB that files there may take")
        .or_else(number_text(server::kSsdCacheMaxGb))
        .value_name = "GB";
    flags.add({.name = "--ssd-cache-verify",
               .kind = FlagKind::kSwitch,
               .description = "Check all that is read there against its checksum, or not with =false (default: check)",
               .set = [&settings](std::string_view value) -> Status {
                 ASSIGN_OR_RETURN(settings.ssd_cache_verify, parse_switch(value));
                 return {};
               }});
  }
  flags.whole("--threads", settings.threads, {1, 1024}, "Threads for computing").or_else("physical cores");
  add_choice(flags, "--activations", settings.activations, kernels::parse_activations,
             "float32, int16 or int8: what meets weights of 4 or 8 bits on a CPU, from exact to fast")
      .or_else("int16 with AVX2 or better, else float32");
  add_kv_quant_flag(flags, settings);
  add_exact_flag(flags, settings);
}

std::optional<std::string> conflict_of(const server::EngineSettings& settings) {
  if (const Status fine = kernels::check_exact(settings.kernel_options()); !fine) return fine.error().message;
  if (settings.exact && settings.prompt_cache_gb.value_or(0) > 0) {
    return "--prompt-cache keeps prompts, and --exact computes each from its beginning; leave one of them out";
  }
  return ssd_cache_conflict(settings);
}

void add_sampling_flags(FlagSet& flags, api::GenerationOptions& options) {
  auto& sampling = options.sampling;
  flags.group("Sampling (defaults: the model's generation_config.json, else temperature 0.7 and nothing more)");
  flags.number("--temperature", sampling.temperature, {0, 2}, "Over 1 evens chances out; 0 takes the likeliest token");
  flags.number("--top-p", sampling.top_p, {0, 1}, "Keep the likeliest tokens that together have this probability");
  flags.whole("--top-k", sampling.top_k, {0, kMaxTokens}, "Keep this many likeliest tokens; 0 keeps all");
  flags.number("--min-p", sampling.min_p, {0, 1}, "Keep tokens at least this likely relative to the likeliest");
  flags.number("--typical-p", sampling.typical_p, {0, 1}, "Keep tokens of typical surprise up to this probability");
  flags.number("--xtc-probability", sampling.xtc_probability, {0, 1}, "Chance to drop all likely tokens but the last");
  flags.number("--xtc-threshold", sampling.xtc_threshold, {0, 1}, "Probability from which a token is likely to XTC");
  flags.number("--repetition-penalty", sampling.repetition_penalty, {0.01, 10}, "Over 1 makes repeats less likely");
  flags.whole("--repetition-context-size", sampling.repetition_context_size, {0, kMaxTokens},
              "Tokens that it looks back at; 0: all");
  flags.number("--presence-penalty", sampling.presence_penalty, {-2, 2}, "Taken off tokens already generated");
  flags.number("--frequency-penalty", sampling.frequency_penalty, {-2, 2}, "The same, once for each time");
  flags
      .whole("--seed", sampling.seed, {0, std::numeric_limits<std::int64_t>::max()},
             "The same seed gives the same answer")
      .or_else("a random one");
  add_stop_flag(flags, options.stop);
}

void add_log_flags(FlagSet& flags, LogLevel& level, LogFormat& format) {
  flags.group("Logging, on standard error");
  add_choice(flags, "--log-level", level, parse_log_level, "trace, debug, info, warn, error or off").or_else("info");
  add_choice(flags, "--log-format", format, parse_log_format, "text or json, one line an event").or_else("text");
}

}  // namespace redpoll::cli
