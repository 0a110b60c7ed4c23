// `redpoll tokenize`: the ids of a text, without loading weights onto a device.
#include <iostream>
#include <iterator>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/verbs.h"
#include "server/model_locator.h"
#include "text/tokenizer.h"

namespace redpoll::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string text;
  bool add_special = false;
  bool as_json = false;
  bool read_input = false;
};

Result<std::shared_ptr<const text::Tokenizer>> open_tokenizer(const std::string& model) {
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(model, server::ModelPlaces::from_environment()));
  ASSIGN_OR_RETURN(const checkpoint::Checkpoint checkpoint, checkpoint::open_checkpoint(location.path));
  return text::Tokenizer::from_json(checkpoint.tokenizer_json);
}

void print(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool as_json) {
  if (as_json) {
    json::array tokens;
    for (const TokenId id : ids) tokens.push_back(json::object{{"id", id}, {"token", tokenizer.token_text(id)}});
    std::cout << dump_json(tokens) << '\n';
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) std::cout << (i == 0 ? "" : " ") << ids[i];
  std::cout << '\n';
}

int run(TokenizeOptions options) {
  if (options.read_input) {
    options.text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  auto tokenizer = open_tokenizer(options.model);
  if (!tokenizer) return report(tokenizer.error());
  auto ids = (*tokenizer)->encode(options.text, {.add_special_tokens = options.add_special});
  if (!ids) return report(ids.error());
  print(**tokenizer, *ids, options.as_json);
  return kExitFine;
}

}  // namespace

void add_tokenize(CommandLine& command_line) {
  const auto options = std::make_shared<TokenizeOptions>();
  const auto text_flag = std::make_shared<CLI::Option*>(nullptr);
  CLI::App& app = command_line.add_verb("tokenize", "Print the token ids of a text", [options, text_flag] {
    options->read_input = (*text_flag)->count() == 0;
    return run(*options);
  });
  *text_flag = app.add_option("TEXT", options->text, "The text; without it, standard input is read");
  add_flag_value(app, "--model", options->model, "As for serve");
  app.add_flag("--add-special", options->add_special, "Add what the tokenizer puts before and after a text");
  app.add_flag("--json", options->as_json, "As a list of objects with id and token");
}

}  // namespace redpoll::cli
