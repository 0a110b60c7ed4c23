// Where the values of flags come from: the command line, then the environment, then a settings file. What a stronger
// source gives hides what weaker ones give. Everything is collected first and assigned last.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/flag_set.h"

namespace redpoll::cli {

struct Assignment {
  const Flag* flag;
  std::string value;
  std::string source;  // begins messages: "--port", "REDPOLL_PORT", "redpoll.toml:3: port"
};

struct Arguments {
  bool help = false;
  std::vector<Assignment> assignments;
};

/// Reads `--name value`, `--name=value`, switches, `-h`, and at most one argument without a flag; after `--` nothing
/// is a flag. A flag's name is no value unless it is written as `--name=--other`.
[[nodiscard]] Result<Arguments> read_arguments(const FlagSet& flags, std::span<const std::string> arguments);

/// "REDPOLL_MAX_BATCH" for "--max-batch".
[[nodiscard]] std::string environment_name(std::string_view flag);

/// Adds flags whose variable is set and not empty, unless they have a value already.
void add_environment(const FlagSet& flags, std::vector<Assignment>& assignments);

/// Adds those of `settings` whose flag has no value already.
void add_settings(std::vector<Assignment> settings, std::vector<Assignment>& assignments);

/// Gives each flag its values. The first bad one is an Error that names the source.
[[nodiscard]] Status assign(const std::vector<Assignment>& assignments);

}  // namespace redpoll::cli
