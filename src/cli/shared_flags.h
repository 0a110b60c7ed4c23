// Flags that several verbs share, bound to the structs that server/ takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/generation.h"
#include "cli/flag_set.h"
#include "server/options.h"

namespace redpoll::cli {

/// A flag whose value is one of a few words; `parse` lists them in its message.
template <typename T, typename Parsed>
Flag& add_choice(FlagSet& flags, const std::string& name, T& target, Result<Parsed> (*parse)(std::string_view),
                 const std::string& description) {
  return flags.add({.name = name,
                    .value_name = "NAME",
                    .kind = FlagKind::kWord,
                    .description = description,
                    .set = [&target, parse](std::string_view value) -> Status {
                      ASSIGN_OR_RETURN(target, parse(value));
                      return {};
                    }});
}

/// --model and the argument MODEL.
void add_model_flag(FlagSet& flags, std::string& model);

/// All that change how much memory a server takes, as `serve` has them, but for --context-length.
void add_memory_flags(FlagSet& flags, server::EngineSettings& settings);
void add_context_length_flag(FlagSet& flags, server::EngineSettings& settings);

/// Flags that mean nothing to a verb that runs one request at a time are left out with kOne.
enum class Batching { kOne, kMany };
/// Those and the others that say how a model is run.
void add_engine_flags(FlagSet& flags, server::EngineSettings& settings, Batching batching);

/// Why these cannot hold together, if so: a mistake of whoever gave them.
[[nodiscard]] std::optional<std::string> conflict_of(const server::EngineSettings& settings);

/// --temperature, --top-p, ..., --seed, --stop: as a request's fields of the same names.
void add_sampling_flags(FlagSet& flags, api::GenerationOptions& options);

/// --log-level and --log-format.
void add_log_flags(FlagSet& flags, LogLevel& level, LogFormat& format);

}  // namespace redpoll::cli
