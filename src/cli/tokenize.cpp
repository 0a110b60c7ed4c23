// `redpoll tokenize`: the ids of a text, without loading weights onto a device.
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/verbs.h"
#include "server/model_locator.h"
#include "text/tokenizer.h"

namespace redpoll::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;  // absent: standard input is read
  bool add_special = false;
  bool as_json = false;
};

std::string read_standard_input() {
  if (::isatty(STDIN_FILENO) != 0) std::cerr << "reading a text from the terminal; Ctrl-D ends it\n";
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

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

int run(const TokenizeOptions& options) {
  auto tokenizer = open_tokenizer(options.model);
  if (!tokenizer) return report(tokenizer.error());
  const std::string text = options.text ? *options.text : read_standard_input();
  auto ids = (*tokenizer)->encode(text, {.add_special_tokens = options.add_special});
  if (!ids) return report(ids.error());
  print(**tokenizer, *ids, options.as_json);
  return kExitFine;
}

}  // namespace

void add_tokenize(CommandLine& command_line) {
  const auto options = std::make_shared<TokenizeOptions>();
  FlagSet& flags = command_line.add_verb("tokenize", "Print the token ids of a text", [options] {
    configure_log({.level = LogLevel::kWarn});
    return run(*options);
  });
  flags.any_text("--text", "TEXT", options->text, "The text").or_else("standard input");
  flags.take_argument("TEXT", "--text");
  flags.text("--model", "M", options->model, "Whose tokenizer; as for serve").or_else("the starter model");
  flags.toggle("--add-special", options->add_special, "Add what the tokenizer puts before and after a text");
  flags.toggle("--json", options->as_json, "As a list of objects with id and token");
}

}  // namespace redpoll::cli
