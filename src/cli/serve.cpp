// `redpoll serve`: the server.
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/shared_flags.h"
#include "cli/verbs.h"
#include "server/app.h"

namespace redpoll::cli {
namespace {

constexpr Range kTimeoutSeconds = {0.001, 1e6};
constexpr WholeRange kTokens = {1, 1'000'000'000};

Flag& add_seconds(FlagSet& flags, std::string name, std::chrono::milliseconds& target, std::string description) {
  return flags.add({.name = std::move(name),
                    .value_name = "SECONDS",
                    .kind = FlagKind::kNumber,
                    .description = std::move(description),
                    .set = [&target](std::string_view value) -> Status {
                      ASSIGN_OR_RETURN(const double seconds, parse_number(value, kTimeoutSeconds));
                      target = std::chrono::milliseconds(std::llround(seconds * 1000));
                      return {};
                    }});
}

void add_network_flags(FlagSet& flags, server::ServerOptions& options) {
  flags.group("Network");
  flags.text("--host", "ADDRESS", options.host, "Address to listen on").or_else(options.host);
  flags.whole("--port", options.port, {0, 65'535}, "Port to listen on; 0 takes any free one");
  flags.text("--api-key-file", "FILE", options.api_key_file, "Keys, one a line, of which a client must send one");
  flags.toggle("--insecure", options.insecure, "Serve other machines without asking for a key");
  flags.list("--allow-origin", "ORIGIN", options.allow_origins, "Web origin whose pages may call this server");
  flags.list("--allow-host", "HOST", options.allow_hosts, "Host name by which clients may call this server");
  add_seconds(flags, "--request-timeout", options.request_timeout, "After which a request is ended").or_else("none");
  add_seconds(flags, "--shutdown-grace", options.shutdown_grace,
              "For which running requests go on after SIGTERM or Ctrl-C")
      .or_else(std::to_string(options.shutdown_grace / std::chrono::seconds(1)));
  flags.add({.name = "--no-web",
             .kind = FlagKind::kSwitch,
             .description = "Do not serve the page at /",
             .set = [&options](std::string_view value) -> Status {
               ASSIGN_OR_RETURN(const bool given, parse_switch(value));
               options.web_page = !given;
               return {};
             }});
}

void add_default_flags(FlagSet& flags, server::SamplingDefaults& defaults) {
  flags.group("For requests that say nothing about it (else the model's generation_config.json decides)");
  flags.number("--default-temperature", defaults.temperature, {0, 2}, "0 takes the likeliest token").or_else("0.7");
  flags.number("--default-top-p", defaults.top_p, {0, 1}, "Keep the likeliest tokens of this probability").or_else("1");
  flags.whole("--default-max-tokens", defaults.max_tokens, kTokens, "Tokens to generate at most")
      .or_else("what the context leaves");
}

void add_prompt_flags(FlagSet& flags, text::VolatileLines& lines) {
  flags.group("Lines that change with every request and would keep a prompt from being found in the prompt cache");
  flags
      .add({.name = "--volatile-line",
            .value_name = "REGEX",
            .kind = FlagKind::kText,
            .description = "Leave out lines at the start of a system prompt that match this in full",
            .set = [&lines](std::string_view value) -> Status {
              RETURN_IF_ERROR(check_text(value));
              ASSIGN_OR_RETURN(text::LinePattern pattern, text::LinePattern::parse(value));
              lines.given.push_back(std::move(pattern));
              return {};
            }})
      .repeatable = true;
  flags.add({.name = "--no-known-volatile-lines",
             .kind = FlagKind::kSwitch,
             .description = "Keep the line there that is known to be one: Claude Code's x-anthropic-billing-header",
             .set = [&lines](std::string_view value) -> Status {
               ASSIGN_OR_RETURN(const bool given, parse_switch(value));
               lines.known = !given;
               return {};
             }});
}

void add_config_flag(FlagSet& flags) {
  flags.group("Settings");
  flags.add({.name = "--config",
             .value_name = "FILE",
             .kind = FlagKind::kText,
             .description = "TOML file with any of these flags as `max-batch = 4`; flags and environment win",
             .set = check_text});  // CommandLine has read the file by then
}

}  // namespace

void add_serve(CommandLine& command_line) {
  const auto options = std::make_shared<server::ServerOptions>();
  FlagSet& flags = command_line.add_verb("serve", "Serve a model over HTTP", [options] {
    if (const auto conflict = conflict_of(options->engine)) return report_usage("serve", *conflict);
    configure_log({.level = options->log_level, .format = options->log_format});
    const Status status = server::serve(*options);
    return status ? kExitFine : report(status.error());
  });
  flags.group("Model");
  add_model_flag(flags, options->model);
  flags.text("--alias", "NAME", options->alias, "The id under which it is served").or_else("its name");
  add_network_flags(flags, *options);
  add_engine_flags(flags, options->engine, Batching::kMany);
  add_default_flags(flags, options->defaults);
  add_prompt_flags(flags, options->volatile_lines);
  add_log_flags(flags, options->log_level, options->log_format);
  add_config_flag(flags);
}

}  // namespace redpoll::cli
