// `redpoll serve`: the server.
#include <memory>

#include "cli/flags.h"
#include "cli/verbs.h"
#include "server/app.h"

namespace redpoll::cli {
namespace {

template <typename T>
void add_default(CLI::App& app, const std::string& name, std::optional<T>& value, double min, double max,
                 const std::string& description) {
  app.add_option_function<T>(
         name, [&value](const T& given) { value = given; }, description)
      ->envname(environment_name(name))
      ->check(CLI::Range(min, max))
      ->take_last();
}

void add_network_flags(CLI::App& app, server::ServerOptions& options) {
  add_flag_value(app, "--host", options.host, "Address to listen on")->capture_default_str();
  add_flag_value(app, "--port", options.port, "Port to listen on; 0 takes any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  add_flag_value(app, "--api-key-file", options.api_key_file, "Keys, one a line, of which a client must send one");
  app.add_option("--allow-origin", options.allow_origins, "Web origin that may call this server; may be repeated")
      ->envname(environment_name("--allow-origin"));
  app.add_option("--allow-host", options.allow_hosts, "Host name that clients may use for it; may be repeated")
      ->envname(environment_name("--allow-host"));
  add_switch(app, "--insecure", options.insecure, "Serve other machines without asking for a key");
  app.add_option_function<double>(
         "--request-timeout",
         [&options](double seconds) {
           options.request_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
         },
         "Seconds after which a request is ended [none]")
      ->envname(environment_name("--request-timeout"))
      ->check(CLI::Range(0.001, 1e6))
      ->take_last();
  app.add_flag_callback(
         "--no-web", [&options] { options.web_page = false; }, "Do not serve the page at /")
      ->envname(environment_name("--no-web"));
}

}  // namespace

void add_serve(CommandLine& command_line) {
  const auto options = std::make_shared<server::ServerOptions>();
  CLI::App& app = command_line.add_verb("serve", "Serve a model over HTTP", [options] {
    configure_log({.level = options->log_level, .format = options->log_format});
    const Status status = server::serve(*options);
    return status ? kExitFine : report(status.error());
  });
  add_flag_value(app, "MODEL,--model", options->model,
                 "Folder, .gguf file, org/name in the local Hugging Face cache, or a unique part of one "
                 "[REDPOLL_MODEL, else the starter model]");
  add_flag_value(app, "--alias", options->alias, "The id under which the model is served [its name]");
  add_network_flags(app, *options);
  add_engine_flags(app, options->engine, Batching::kMany);
  add_default(app, "--default-temperature", options->defaults.temperature, 0, 2, "For requests that give none");
  add_default(app, "--default-top-p", options->defaults.top_p, 0, 1, "For requests that give none");
  add_default(app, "--default-max-tokens", options->defaults.max_tokens, 1, 1e9, "For requests that give none");
  add_log_flags(app, options->log_level, options->log_format);
  app.add_option("--config", "TOML file with any of these flags as `name = value`; flags and environment win")
      ->envname(environment_name("--config"));
}

}  // namespace redpoll::cli
