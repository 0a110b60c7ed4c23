// The settings file of --config: TOML whose keys are a verb's flags without their dashes. TOML stays in the .cpp.
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "cli/flag_sources.h"

namespace redpoll::cli {

/// The file's settings in its order; a list gives a repeatable flag several. An Error names file and line: what TOML
/// does not allow, a key that is no flag, a value of the wrong type. Values themselves are checked by `assign`.
[[nodiscard]] Result<std::vector<Assignment>> read_config_file(const std::filesystem::path& path, const FlagSet& flags);

}  // namespace redpoll::cli
