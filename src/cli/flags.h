// Flags that several verbs share, bound to the structs that server/ takes.
#pragma once

#include <CLI/CLI.hpp>

#include "api/generation.h"
#include "server/options.h"

namespace redpoll::cli {

/// --max-batch, --max-queue, --context-length, --memory-budget, --step-tokens, --threads. `batching`: the first two and
/// --step-tokens too, which mean nothing to a verb that runs one request.
enum class Batching { kOne, kMany };
void add_engine_flags(CLI::App& app, server::EngineSettings& settings, Batching batching);

/// --temperature, --top-p, ..., --seed, --max-tokens, --stop: as a request's fields of the same names.
void add_sampling_flags(CLI::App& app, api::GenerationOptions& options);

/// --log-level and --log-format, checked.
void add_log_flags(CLI::App& app, LogLevel& level, LogFormat& format);

}  // namespace redpoll::cli
