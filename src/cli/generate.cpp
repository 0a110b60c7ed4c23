// `redpoll generate`: one answer on standard output.
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>

#include "api/openai/answer_json.h"
#include "api/openai/completions.h"
#include "cli/model_session.h"
#include "cli/shared_flags.h"
#include "cli/verbs.h"
#include "server/prepare.h"

namespace redpoll::cli {
namespace {

struct GenerateOptions {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::vector<TokenId> prompt_token_ids;
  bool raw = false;
  bool as_json = false;
  server::EngineSettings engine{.prompt_cache_gb = 0};  // there is one prompt
  api::GenerationOptions generation;
};

// "1,2,3"
Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (error != std::errc() || end != item.data() + item.size() || id < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "expected token ids with commas between, as in 1,2,3; got " + shown_value(text));
    }
    ids.push_back(id);
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

// What is wrong with the flags together; empty: nothing.
std::string_view contradiction(const GenerateOptions& options) {
  const bool with_ids = !options.prompt_token_ids.empty();
  if (!options.prompt && !with_ids) return "generate needs a --prompt or --prompt-token-ids";
  if (options.prompt && with_ids) return "--prompt and --prompt-token-ids exclude each other";
  if (options.system && (options.raw || with_ids)) {
    return "--system needs the chat template, which --raw and --prompt-token-ids leave out";
  }
  return {};
}

Status check_ids(const std::vector<TokenId>& ids, int vocab_size) {
  for (const TokenId id : ids) {
    if (id < vocab_size) continue;
    return fail(ErrorCode::kInvalidArgument, "--prompt-token-ids: expected ids from 0 to " +
                                                 std::to_string(vocab_size - 1) + ", the model's vocabulary; got " +
                                                 std::to_string(id));
  }
  return {};
}

json::object message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

Result<server::PreparedGeneration> prepare(const server::ServedModel& model, const GenerateOptions& options) {
  if (options.raw || !options.prompt) {
    RETURN_IF_ERROR(check_ids(options.prompt_token_ids, model.vocab_size));
    api::CompletionRequest request;
    if (options.prompt) {
      request.prompts.emplace_back(*options.prompt);
    } else {
      request.prompts.emplace_back(options.prompt_token_ids);
    }
    request.options = options.generation;
    return server::prepare_completion(model, {}, request);
  }
  if (!model.chat_template) {
    return fail(ErrorCode::kInvalidArgument,
                "model '" + model.id + "' has no chat template: --raw continues the prompt as it is");
  }
  api::ChatRequest request;
  if (options.system) request.conversation.messages.push_back(message("system", *options.system));
  request.conversation.messages.push_back(message("user", *options.prompt));
  request.options = options.generation;
  return server::prepare_chat(model, {}, request);
}

json::object to_json(const LocalAnswer& local) {
  const api::Answer& answer = local.answer;
  const api::ChoiceResult& choice = answer.choices.front();
  return {{"text", choice.text},
          {"prompt_token_ids", api::openai::id_array(answer.prompt_token_ids.front())},
          {"token_ids", api::openai::token_ids(choice.tokens)},
          {"finish_reason", local.interrupted ? "interrupted" : api::openai::finish_reason_name(choice.reason)},
          {"usage", api::openai::usage_json(answer.usage)},
          {"timings", api::openai::timings_json(answer.timings, answer.usage)}};
}

int run(const GenerateOptions& options) {
  if (const std::string_view wrong = contradiction(options); !wrong.empty()) return report_usage("generate", wrong);
  if (const auto conflict = conflict_of(options.engine)) return report_usage("generate", *conflict);
  auto model = load_model(options.model, options.engine);
  if (!model) return report(model.error());
  auto prepared = prepare(**model, options);
  if (!prepared) return report(prepared.error());
  prepared->options.return_token_ids = options.as_json;
  bool line_is_open = false;
  auto local = generate_answer(**model, std::move(*prepared), [&](std::string_view text) {
    if (options.as_json || text.empty()) return;
    line_is_open = true;
    std::cout << text << std::flush;
  });
  if (!local) {
    if (line_is_open) std::cout << std::endl;
    return report(local.error());
  }
  std::cout << (options.as_json ? dump_json(to_json(*local)) : "") << '\n';
  return local->interrupted ? kExitInterrupted : kExitFine;
}

void add_prompt_flags(FlagSet& flags, GenerateOptions& options) {
  flags.group("Prompt and answer");
  flags.any_text("--prompt", "TEXT", options.prompt, "What to answer, as one user message");
  flags.any_text("--system", "TEXT", options.system, "A system message before it");
  flags.toggle("--raw", options.raw, "Continue the prompt as it is, without the chat template");
  flags.add({.name = "--prompt-token-ids",
             .value_name = "IDS",
             .kind = FlagKind::kText,
             .description = "Continue these tokens instead: 1,2,3",
             .set = [&options](std::string_view text) -> Status {
               ASSIGN_OR_RETURN(options.prompt_token_ids, parse_ids(text));
               return {};
             }});
  flags.whole("--max-tokens", options.generation.max_tokens, {1, 1'000'000'000}, "Tokens to generate at most")
      .or_else(std::to_string(api::openai::kDefaultCompletionTokens) +
               " with --raw or ids, else what the context leaves");
  flags.toggle("--ignore-eos", options.generation.ignore_eos, "Go on after the end of the answer");
  flags.toggle("--json", options.as_json,
               "Print one object: text, prompt_token_ids, token_ids, finish_reason, usage, timings");
}

}  // namespace

void add_generate(CommandLine& command_line) {
  const auto options = std::make_shared<GenerateOptions>();
  FlagSet& flags = command_line.add_verb("generate", "Print one answer", [options] {
    configure_log({.level = LogLevel::kWarn});
    return run(*options);
  });
  flags.group("Model");
  add_model_flag(flags, options->model);
  add_prompt_flags(flags, *options);
  add_sampling_flags(flags, options->generation);
  add_engine_flags(flags, options->engine, Batching::kOne);
}

}  // namespace redpoll::cli
