#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <numeric>

namespace redpoll::cli {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, replaced});
    }
  }
  return row.back();
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string text;
  for (const std::string& match : near_matches(word, candidates)) text += (text.empty() ? "" : " or ") + match;
  return text.empty() ? "" : "; did you mean " + text + "?";
}

bool is_set_on_command_line(const std::string& flag, const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& argument) { return argument == flag || argument.starts_with(flag + "="); });
}

}  // namespace

CommandLine::CommandLine()
    : root_("Serves language models on this machine over the APIs that tools already speak.", "redpoll") {
  root_.set_help_flag("-h,--help", "Print this help and leave");
  root_.get_formatter()->column_width(34);
  root_.footer(
      "`redpoll VERB --help` lists a verb's flags. Every flag may also be given as an environment variable:\n"
      "REDPOLL_PORT=9000 is --port 9000. Without a verb: serve.");
}

CLI::App& CommandLine::add_verb(const std::string& name, const std::string& description, std::function<int()> run) {
  CLI::App& app = *root_.add_subcommand(name, description);
  app.set_help_flag("-h,--help", "Print this help and leave");
  verbs_.push_back({&app, std::move(run)});
  return app;
}

const CommandLine::Verb* CommandLine::find(std::string_view name) const {
  const auto found =
      std::find_if(verbs_.begin(), verbs_.end(), [&](const Verb& verb) { return verb.app->get_name() == name; });
  return found == verbs_.end() ? nullptr : &*found;
}

int CommandLine::usage_error(const std::string& message, const Verb* verb) const {
  std::cerr << "redpoll: " << message << "\n`redpoll " << (verb != nullptr ? verb->app->get_name() + " " : "")
            << "--help` lists what there is.\n";
  return kExitUsage;
}

int CommandLine::run(std::vector<std::string> arguments) {
  if (!arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help")) {
    std::cout << root_.help();
    return kExitFine;
  }
  if (!arguments.empty() && arguments[0] == "--version") arguments[0] = "version";
  if (arguments.empty() || arguments[0].starts_with('-')) arguments.insert(arguments.begin(), "serve");
  const Verb* verb = find(arguments[0]);
  if (verb == nullptr) {
    std::vector<std::string> names;
    for (const Verb& known : verbs_) names.push_back(known.app->get_name());
    return usage_error("there is no command '" + arguments[0] + "'" + did_you_mean(arguments[0], names), nullptr);
  }
  auto expanded = expand_config(*verb, std::move(arguments));
  if (!expanded) return usage_error(expanded.error().message, verb);
  std::reverse(expanded->begin(), expanded->end());  // CLI11 takes vectors from the back
  try {
    root_.parse(std::move(*expanded));
  } catch (const CLI::CallForHelp&) {
    std::cout << verb->app->help();
    return kExitFine;
  } catch (const CLI::ExtrasError& error) {
    const std::vector<std::string> extra = root_.remaining(true);
    const std::string word = extra.empty() ? "" : extra.front().substr(0, extra.front().find('='));
    if (!word.starts_with("-")) return usage_error("unexpected argument '" + word + "'", verb);
    return usage_error("there is no flag '" + word + "'" + did_you_mean(word, flag_names(*verb->app)), verb);
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what(), verb);
  }
  return verb->run();
}

// Turns `--config FILE` into the flags that the file sets and that neither the command line nor the environment does.
Result<std::vector<std::string>> CommandLine::expand_config(const Verb& verb,
                                                            std::vector<std::string> arguments) const {
  const CLI::Option* option = verb.app->get_option_no_throw("--config");
  if (option == nullptr) return arguments;
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) path = arguments[i + 1];
    if (arguments[i].starts_with("--config=")) path = arguments[i].substr(9);
  }
  if (path.empty()) {
    const char* variable = std::getenv(environment_name("--config").c_str());
    if (variable == nullptr || *variable == '\0') return arguments;
    path = variable;
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInvalidArgument, "--config " + path + ": " + error.what());
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks for sections
    const std::string flag = "--" + item.name;
    const CLI::Option* known = item.parents.empty() ? verb.app->get_option_no_throw(flag) : nullptr;
    if (known == nullptr || item.name == "config" || item.name == "help") {
      return fail(ErrorCode::kInvalidArgument, "--config " + path + ": there is no setting '" + item.fullname() + "'" +
                                                   did_you_mean(flag, flag_names(*verb.app)));
    }
    if (is_set_on_command_line(flag, arguments) || std::getenv(environment_name(flag).c_str()) != nullptr) continue;
    for (const std::string& value : item.inputs) arguments.push_back(flag + "=" + value);
  }
  return arguments;
}

CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& value, const std::string& description) {
  return app.add_flag(name, value, description)->envname(environment_name(name));
}

std::string environment_name(std::string_view flag) {
  std::string name = "REDPOLL_";
  for (const char c : flag.substr(flag.find_first_not_of('-'))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<std::string> near_matches(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> scored;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= std::max<std::size_t>(1, word.size() / 3)) scored.emplace_back(distance, candidate);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(scored.size(), 3); ++i) names.push_back(scored[i].second);
  return names;
}

int report(const Error& error) {
  std::cerr << "redpoll: " << error.message << '\n';
  return kExitFailed;
}

}  // namespace redpoll::cli
