// The entry of the `redpoll` command.
#include <string>
#include <vector>

#include "cli/verbs.h"

int main(int argc, char** argv) {
  redpoll::cli::CommandLine command_line;
  redpoll::cli::add_serve(command_line);
  redpoll::cli::add_generate(command_line);
  redpoll::cli::add_chat(command_line);
  redpoll::cli::add_tokenize(command_line);
  redpoll::cli::add_bench(command_line);
  redpoll::cli::add_bench_serve(command_line);
  redpoll::cli::add_cache(command_line);
  redpoll::cli::add_models(command_line);
  redpoll::cli::add_doctor(command_line);
  redpoll::cli::add_fit(command_line);
  redpoll::cli::add_version(command_line);
  return command_line.run(std::vector<std::string>(argv + 1, argv + argc));
}
