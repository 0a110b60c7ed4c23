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

/// The verbs, as pairs of name and summary.
[[nodiscard]] std::string program_help(const std::vector<std::pair<std::string, std::string>>& verbs);

}  // namespace redpoll::cli
