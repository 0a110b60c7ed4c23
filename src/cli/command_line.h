// The `redpoll` command: verbs, their flags, and exit codes. A verb is one file that adds itself to a CommandLine.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/flag_set.h"
#include "cli/help_text.h"

namespace redpoll::cli {

inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // as shells report a program that Ctrl-C ended

class CommandLine {
 public:
  /// A new verb, maybe of two words: "bench serve". `run` is called after its flags were read and returns the exit
  /// code. The reference stays valid.
  FlagSet& add_verb(const std::string& name, const std::string& summary, std::function<int()> run);

  /// Reads the arguments (without the program's name) and runs the verb; no verb means `serve`. Prints what is wrong
  /// and what may have been meant. Returns the exit code.
  [[nodiscard]] int run(std::vector<std::string> arguments);

 private:
  struct Verb {
    std::string name;
    std::string summary;
    std::function<int()> run;
    FlagSet flags;
  };
  [[nodiscard]] const Verb* find(std::string_view name) const;
  [[nodiscard]] int print_help() const;
  [[nodiscard]] int unknown_verb(const std::string& name) const;
  /// Names and summaries of those that begin with these words.
  [[nodiscard]] VerbList verbs_after(std::string_view beginning) const;
  /// What to do with a word that is no verb, and only begins some.
  [[nodiscard]] int run_group(const std::string& word, std::span<const std::string> arguments) const;
  [[nodiscard]] static int run_verb(const Verb& verb, std::span<const std::string> arguments);

  std::deque<Verb> verbs_;
};

/// Prints "redpoll: MESSAGE" on standard error and returns kExitFailed.
int report(const Error& error);

/// The same with a pointer to the help of `verb` (empty: of the program); returns kExitUsage.
int report_usage(std::string_view verb, std::string_view message);

}  // namespace redpoll::cli
