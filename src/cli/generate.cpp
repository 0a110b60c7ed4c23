// `redpoll generate`: one answer on standard output.
#include <charconv>
#include <iostream>
#include <memory>

#include "cli/flags.h"
#include "cli/model_session.h"
#include "cli/verbs.h"
#include "server/prepare.h"

namespace redpoll::cli {
namespace {

struct GenerateOptions {
  std::string model;
  std::string prompt;
  std::string system;
  std::vector<TokenId> prompt_token_ids;
  bool raw = false;
  bool as_json = false;
  server::EngineSettings engine;
  api::GenerationOptions generation;
};

json::object message(std::string_view role, std::string_view content) { return {{"role", role}, {"content", content}}; }

Result<server::PreparedGeneration> prepare(const server::ServedModel& model, const GenerateOptions& options) {
  if (options.raw || !options.prompt_token_ids.empty()) {
    api::CompletionRequest request;
    if (options.prompt_token_ids.empty()) {
      request.prompts.emplace_back(options.prompt);
    } else {
      request.prompts.emplace_back(options.prompt_token_ids);
    }
    request.options = options.generation;
    return server::prepare_completion(model, {}, request);
  }
  api::ChatRequest request;
  if (!options.system.empty()) request.conversation.messages.push_back(message("system", options.system));
  request.conversation.messages.push_back(message("user", options.prompt));
  request.options = options.generation;
  return server::prepare_chat(model, {}, request);
}

json::array to_json(const std::vector<TokenId>& ids) {
  json::array array;
  for (const TokenId id : ids) array.push_back(id);
  return array;
}

json::object to_json(const api::Answer& answer) {
  const api::ChoiceResult& choice = answer.choices.front();
  json::array token_ids;
  for (const api::TokenInfo& token : choice.tokens) token_ids.push_back(token.id);
  const api::Usage& usage = answer.usage;
  const api::Timings& timings = answer.timings;
  return {{"text", choice.text},
          {"prompt_token_ids", to_json(answer.prompt_token_ids.front())},
          {"token_ids", std::move(token_ids)},
          {"finish_reason", choice.reason == api::FinishReason::kStop ? "stop" : "length"},
          {"usage",
           {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.completion_tokens},
            {"total_tokens", usage.prompt_tokens + usage.completion_tokens}}},
          {"timings",
           {{"prefill_ms", timings.prefill_ms}, {"decode_ms", timings.decode_ms}, {"ttft_ms", timings.ttft_ms}}}};
}

int run(const GenerateOptions& options) {
  if (options.prompt.empty() == options.prompt_token_ids.empty()) {
    std::cerr << "redpoll: generate needs a --prompt or --prompt-token-ids, and not both\n";
    return kExitUsage;
  }
  auto model = load_model(options.model, options.engine);
  if (!model) return report(model.error());
  auto prepared = prepare(**model, options);
  if (!prepared) return report(prepared.error());
  prepared->options.return_token_ids = options.as_json;
  auto answer = generate_answer(**model, std::move(*prepared), [&](std::string_view text) {
    if (!options.as_json) std::cout << text << std::flush;
  });
  if (!answer) return report(answer.error());
  std::cout << (options.as_json ? dump_json(to_json(*answer)) : "") << '\n';
  return std::cout.good() ? kExitFine : kExitFailed;
}

// "1,2,3"
std::vector<TokenId> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (next != end && *next != ',') || next + 1 == end) {
      throw CLI::ValidationError("--prompt-token-ids",
                                 "expected numbers with commas between, as in 1,2,3; got " + text);
    }
    ids.push_back(id);
    at = next == end ? end : next + 1;
  }
  return ids;
}

}  // namespace

void add_generate(CommandLine& command_line) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App& app = command_line.add_verb("generate", "Print one answer", [options] {
    configure_log({.level = LogLevel::kWarn});
    return run(*options);
  });
  add_flag_value(app, "MODEL,--model", options->model, "As for serve");
  app.add_option("--prompt", options->prompt, "What to answer, as one user message");
  app.add_option("--system", options->system, "A system message before it");
  app.add_flag("--raw", options->raw, "Continue the prompt as it is, without the chat template");
  app.add_option_function<std::string>(
      "--prompt-token-ids", [options](const std::string& text) { options->prompt_token_ids = parse_ids(text); },
      "Continue these tokens: 1,2,3");
  app.add_flag("--ignore-eos", options->generation.ignore_eos, "Go on after the end of the answer");
  app.add_flag("--json", options->as_json, "Print one object: text, token ids, finish_reason, usage, timings");
  add_sampling_flags(app, options->generation);
  add_engine_flags(app, options->engine, Batching::kOne);
}

}  // namespace redpoll::cli
