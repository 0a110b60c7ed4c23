// The verbs of the command, one file each.
#pragma once

#include "cli/command_line.h"

namespace redpoll::cli {

void add_serve(CommandLine& command_line);
void add_generate(CommandLine& command_line);
void add_chat(CommandLine& command_line);
void add_tokenize(CommandLine& command_line);
void add_bench(CommandLine& command_line);
void add_bench_serve(CommandLine& command_line);
void add_cache(CommandLine& command_line);
void add_models(CommandLine& command_line);
void add_doctor(CommandLine& command_line);
void add_fit(CommandLine& command_line);
void add_version(CommandLine& command_line);

}  // namespace redpoll::cli
