// The `redpoll` command: verbs, strict flags, environment variables, suggestions for what was mistyped. CLI11 stays in
// this folder. A verb is one file that adds itself to a CommandLine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace redpoll::cli {

/// Exit codes: 0 fine, 1 failed, 2 wrong usage.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

class CommandLine {
 public:
  CommandLine();

  /// A new verb. `run` is called after its flags were read and returns the exit code.
  CLI::App& add_verb(const std::string& name, const std::string& description, std::function<int()> run);

  /// Reads the arguments (without the program's name) and runs the verb; no verb means `serve`. Prints what is wrong
  /// and what may have been meant.
  [[nodiscard]] int run(std::vector<std::string> arguments);

 private:
  struct Verb {
    CLI::App* app;
    std::function<int()> run;
  };
  [[nodiscard]] const Verb* find(std::string_view name) const;
  [[nodiscard]] int usage_error(const std::string& message, const Verb* verb) const;
  [[nodiscard]] Result<std::vector<std::string>> expand_config(const Verb& verb,
                                                               std::vector<std::string> arguments) const;

  CLI::App root_;
  std::vector<Verb> verbs_;
};

/// A flag with its environment variable: "--max-batch" also reads REDPOLL_MAX_BATCH; the flag wins, and of a repeated
/// flag the last.
template <typename T>
CLI::Option* add_flag_value(CLI::App& app, const std::string& name, T& value, const std::string& description);
/// A switch without a value; its environment variable takes true or false.
CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& value, const std::string& description);

/// "REDPOLL_MAX_BATCH" for "--max-batch".
[[nodiscard]] std::string environment_name(std::string_view flag);

/// The candidates within a third of the length of `word` by edit distance, nearest first, at most three.
[[nodiscard]] std::vector<std::string> near_matches(std::string_view word, const std::vector<std::string>& candidates);

/// Prints "redpoll: MESSAGE" on standard error and returns kExitFailed.
int report(const Error& error);

template <typename T>
CLI::Option* add_flag_value(CLI::App& app, const std::string& name, T& value, const std::string& description) {
  return app.add_option(name, value, description)->envname(environment_name(name))->take_last();
}

}  // namespace redpoll::cli
