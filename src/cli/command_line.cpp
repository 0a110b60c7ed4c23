#include "cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "base/text.h"
#include "cli/config_file.h"
#include "cli/flag_sources.h"
#include "cli/suggestions.h"

namespace redpoll::cli {
namespace {

constexpr std::string_view kConfigFlag = "--config";

// The values of every source, weaker ones hidden.
Status collect(const FlagSet& flags, std::vector<Assignment>& assignments) {
  add_environment(flags, assignments);
  const Assignment* config = nullptr;
  for (const Assignment& given : assignments) {
    if (given.flag->name == kConfigFlag && !given.value.empty()) config = &given;
  }
  if (config == nullptr) return {};
  auto settings = read_config_file(config->value, flags);
  if (!settings) return fail(ErrorCode::kInvalidArgument, config->source + ": " + settings.error().message);
  add_settings(*std::move(settings), assignments);
  return {};
}

// What was printed may still be on its way; a full disk shows only now.
int check_output(int exit_code) {
  std::cout.flush();
  if (std::cout.good() || exit_code != kExitFine) return exit_code;
  return report({ErrorCode::kIo, "cannot write to standard output", {}});
}

}  // namespace

FlagSet& CommandLine::add_verb(const std::string& name, const std::string& summary, std::function<int()> run) {
  return verbs_.emplace_back(Verb{name, summary, std::move(run), {}}).flags;
}

const CommandLine::Verb* CommandLine::find(std::string_view name) const {
  const auto found = std::ranges::find(verbs_, name, &Verb::name);
  return found == verbs_.end() ? nullptr : &*found;
}

int CommandLine::run(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments[0] == "help") {  // `help serve` is `serve --help`
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  if (arguments.empty()) arguments.emplace_back("serve");
  if (arguments[0] == "-h" || arguments[0] == "--help") return print_help();
  if (arguments[0] == "--version") arguments[0] = "version";
  if (arguments[0].starts_with('-')) arguments.insert(arguments.begin(), "serve");
  if (arguments.size() > 1 && find(arguments[0] + ' ' + arguments[1]) != nullptr) {  // a verb of two words
    arguments[0] += ' ' + arguments[1];
    arguments.erase(arguments.begin() + 1);
  }
  const Verb* verb = find(arguments[0]);
  if (verb == nullptr && !verbs_after(arguments[0] + ' ').empty()) {
    return run_group(arguments[0], std::span(arguments).subspan(1));
  }
  if (verb == nullptr) return unknown_verb(arguments[0]);
  return check_output(run_verb(*verb, std::span(arguments).subspan(1)));
}

int CommandLine::run_verb(const Verb& verb, std::span<const std::string> arguments) {
  auto given = read_arguments(verb.flags, arguments);
  if (!given) return report_usage(verb.name, given.error().message);
  if (given->help) {
    std::cout << verb_help(verb.name, verb.summary, verb.flags);
    return kExitFine;
  }
  if (const Status status = collect(verb.flags, given->assignments); !status) {
    return report_usage(verb.name, status.error().message);
  }
  if (const Status status = assign(given->assignments); !status) {
    return report_usage(verb.name, status.error().message);
  }
  return verb.run();
}

VerbList CommandLine::verbs_after(std::string_view beginning) const {
  VerbList verbs;
  for (const Verb& verb : verbs_) {
    if (verb.name.starts_with(beginning)) verbs.emplace_back(verb.name, verb.summary);
  }
  return verbs;
}

int CommandLine::print_help() const {
  std::cout << program_help(verbs_after(""));
  return check_output(kExitFine);
}

int CommandLine::run_group(const std::string& word, std::span<const std::string> arguments) const {
  const VerbList verbs = verbs_after(word + ' ');
  if (arguments.empty()) {
    std::cerr << "redpoll: " << word << " needs one of its verbs\n\n" << group_help(word, verbs);
    return kExitUsage;
  }
  if (arguments[0] == "-h" || arguments[0] == "--help") {
    std::cout << group_help(word, verbs);
    return check_output(kExitFine);
  }
  const std::string name = word + ' ' + arguments[0];
  std::vector<std::string> names;
  for (const auto& verb : verbs) names.push_back(verb.first);
  return report_usage(word, "there is no command " + shown_value(name) + did_you_mean(name, names));
}

int CommandLine::unknown_verb(const std::string& name) const {
  std::vector<std::string> names;
  for (const Verb& verb : verbs_) names.push_back(verb.name);
  std::string hint = did_you_mean(name, names);
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) hint = "; to serve that model: redpoll serve " + name;
  return report_usage("", "there is no command " + shown_value(name) + hint);
}

int report(const Error& error) {
  std::cerr << "redpoll: " << printable(error.message) << '\n';
  return kExitFailed;
}

int report_usage(std::string_view verb, std::string_view message) {
  std::cerr << "redpoll: " << printable(message) << "\n`redpoll " << verb << (verb.empty() ? "" : " ")
            << "--help` lists what there is.\n";
  return kExitUsage;
}

}  // namespace redpoll::cli
