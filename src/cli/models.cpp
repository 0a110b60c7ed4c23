// `redpoll models`: which families of models can be loaded, and how far each has been checked.
#include <iostream>
#include <memory>

#include "base/json.h"
#include "bench/table.h"
#include "cli/verbs.h"
#include "models/registry.h"

namespace redpoll::cli {
namespace {

int print_models(bool as_json) {
  json::array list;
  bench::Table table({"model_type", "logits of a tiny random model compared with", "a real model's answers"});
  for (const models::Family& family : models::families()) {
    const std::string real(family.real_model.empty() ? "not checked" : family.real_model);
    table.add_row({std::string(family.model_type), std::string(family.oracle), real});
    json::object row{{"model_type", family.model_type}, {"oracle", family.oracle}};
    row["real_model"] = family.real_model.empty() ? json::value() : json::value(family.real_model);
    list.push_back(std::move(row));
  }
  std::cout << (as_json ? dump_json(json::object{{"families", std::move(list)}}) + '\n' : table.text());
  return kExitFine;
}

}  // namespace

void add_models(CommandLine& command_line) {
  const auto as_json = std::make_shared<bool>(false);
  FlagSet& flags =
      command_line.add_verb("models", "List the families of models that can be loaded, by config.json's model_type",
                            [as_json] { return print_models(*as_json); });
  flags.toggle("--json", *as_json, "As one JSON object");
}

}  // namespace redpoll::cli
