// What --help prints.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flag_set.h"

namespace redpoll::cli {

/// Summary, usage line, flags under their headings in two columns, and how else flags can be given.
[[nodiscard]] std::string verb_help(std::string_view verb, std::string_view summary, const FlagSet& flags);

/// Pairs of name and summary.
using VerbList = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string program_help(const VerbList& verbs);

/// For a word that only begins verbs, which are these.
[[nodiscard]] std::string group_help(std::string_view word, const VerbList& verbs);

}  // namespace redpoll::cli
