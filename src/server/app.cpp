#include "server/app.h"

#include <algorithm>
#include <thread>

#include "api/errors.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/disk/ssd_cache.h"
#include "http/server.h"
#include "server/api_keys.h"
#include "server/app_context.h"
#include "server/fit/fit_handler.h"
#include "server/generation_session.h"
#include "server/model_locator.h"
#include "server/native_handlers.h"
#include "server/responses.h"
#include "server/shutdown_signal.h"
#include "server/status_handlers.h"

namespace redpoll::server {
namespace {

using GetHandler = http::Response (*)(const AppContext&);
using GetRequestHandler = http::Response (*)(const AppContext&, const http::Request&);
using TaskHandler = http::Task<http::Response> (*)(AppContext&, http::Request&);

http::Handler on_get(AppContext& context, GetHandler handler) {
  return [&context, handler](http::Request&, http::Exchange&) -> http::Task<http::Response> {
    co_return handler(context);
  };
}

http::Handler on_get(AppContext& context, GetRequestHandler handler) {
  return [&context, handler](http::Request& request, http::Exchange&) -> http::Task<http::Response> {
    co_return handler(context, request);
  };
}

http::Handler on_worker(AppContext& context, TaskHandler handler) {
  return [&context, handler](http::Request& request, http::Exchange&) { return handler(context, request); };
}

http::Handler generates(AppContext& context, const Protocol& protocol) {
  return [&context, &protocol](http::Request& request, http::Exchange& exchange) {
    return serve_generation(context, protocol, request, exchange);
  };
}

// What needs the model answers 503 until there is one.
http::Handler once_loaded(const AppContext& context, http::Handler handler) {
  return [&context, handler = std::move(handler)](http::Request& request,
                                                  http::Exchange& exchange) -> http::Task<http::Response> {
    if (!context.loaded) co_return error_response(Error{ErrorCode::kUnavailable, std::string(kLoadingReason), {}});
    co_return co_await handler(request, exchange);
  };
}

http::Router make_router(AppContext& context) {
  http::Router router;
  const auto add = [&](std::string_view method, std::string_view pattern, http::Handler handler) {
    router.add(std::string(method), pattern, once_loaded(context, std::move(handler)));
  };
  router.add("GET", "/health", on_get(context, get_health));
  add("POST", "/v1/chat/completions", generates(context, openai_chat_protocol()));
  add("POST", "/v1/completions", generates(context, openai_completions_protocol()));
  add("GET", "/v1/models", on_get(context, get_models));
  add("GET", "/v1/models/{id}", on_get(context, get_model));
  add("GET", "/stats", on_get(context, get_stats));
  add("GET", "/metrics", on_get(context, get_metrics));
  add("GET", "/fit", on_worker(context, get_fit));
  add("POST", "/tokenize", on_worker(context, post_tokenize));
  add("POST", "/detokenize", on_worker(context, post_detokenize));
  add("POST", "/apply-template", on_worker(context, post_apply_template));
  add("POST", "/v1/cache/explain", on_worker(context, post_cache_explain));
  if (context.options.web_page) add("GET", "/", on_get(context, get_page));
  return router;
}

void log_access(const http::AccessRecord& record) {
  log_info("request", {{"request_id", record.request_id},
                       {"client", record.remote_address},
                       {"method", shortened(record.method)},
                       {"path", shortened(record.path)},
                       {"status", std::to_string(record.status)},
                       {"bytes", std::to_string(record.bytes_sent)},
                       {"ms", std::to_string(record.duration.count() / 1000)},
                       {"client_gone", record.client_gone ? "yes" : "no"}});
}

http::ServerOptions http_options(const ServerOptions& options, std::vector<std::string> api_keys) {
  http::ServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.security.allow_hosts = options.allow_hosts;
  http.security.allow_origins = options.allow_origins;
  http.security.api_keys = std::move(api_keys);
  http.format_error = [](const http::ErrorContext& context) {
    http::Response response = error_response(context.error);
    response.status = context.status;
    return response;
  };
  http.format_stream_error = [](const http::ErrorContext& context) {
    return std::vector<std::string>{api::openai_error_body(context.error), "[DONE]"};
  };
  http.access_log = log_access;
  return http;
}

Exposure exposure_of(const ServerOptions& options, const std::vector<std::string>& keys) {
  return {.host = options.host, .has_keys = !keys.empty(), .insecure = options.insecure};
}

// The keys that clients must have, after the check that nobody serves a network without any by accident.
Result<std::vector<std::string>> read_keys(const ServerOptions& options) {
  ApiKeys keys;
  if (!options.api_key_file.empty()) {
    ASSIGN_OR_RETURN(keys, read_api_keys(options.api_key_file));
    if (!keys.warning.empty()) log_warn(keys.warning);
  }
  RETURN_IF_ERROR(check_exposure(exposure_of(options, keys.keys)));
  return std::move(keys.keys);
}

std::string address_of(const std::string& host, std::uint16_t port) {
  const bool is_bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return (is_bare_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// Where a client on this machine finds a server that listens on `host`.
std::string reachable_host(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host.empty() ? "127.0.0.1" : host;
}

}  // namespace

api::RequestLimits AppContext::limits() const {
  api::RequestLimits limits;
  limits.max_prompts = options.engine.max_batch + options.engine.max_queue;  // more could never be accepted at once
  limits.vocab_size = model->vocab_size;
  return limits;
}

class App::Impl {
 public:
  std::unique_ptr<AppContext> context;
  std::unique_ptr<http::Server> server;

  static Result<std::unique_ptr<Impl>> listen(const ServerOptions& options, const std::vector<std::string>& keys);
  ~Impl();
};

// A handler that a worker holds may outlast the stopping of the server. Its coroutine ends with the server's destructor
// at the latest, still using the context, and the worker must not wake it after that.
App::Impl::~Impl() {
  if (!server) return;
  (void)server->stop(std::chrono::milliseconds{0});
  context->workers.reset();
  server.reset();
}

Result<std::unique_ptr<App::Impl>> App::Impl::listen(const ServerOptions& options,
                                                     const std::vector<std::string>& keys) {
  auto impl = std::make_unique<Impl>();
  impl->context = std::make_unique<AppContext>();
  AppContext& context = *impl->context;
  context.options = options;
  context.key_required = !keys.empty();
  context.version = REDPOLL_VERSION;
  context.started_at = system_clock().now();
  context.started_at_unix =
      std::chrono::duration_cast<std::chrono::seconds>(system_clock().wall_now().time_since_epoch()).count();
  context.workers = std::make_unique<ThreadPool>(std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  ASSIGN_OR_RETURN(impl->server, http::Server::start(http_options(options, keys), make_router(context)));
  return impl;
}

App::App(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
App::~App() = default;

Result<std::unique_ptr<App>> App::start(const ServerOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const ModelLocation location, locate_model(options.model, ModelPlaces::from_environment()));
  const LoadOptions load{options.alias, options.engine};
  return start_with(options, [&] { return load_served_model(location, load, progress); }, progress);
}

// Whatever is wrong with the flags, a port that is taken or a folder of somebody else among them, shows before a model
// loads for a minute.
Result<std::unique_ptr<App>> App::start_with(const ServerOptions& options, const ModelSource& source,
                                             const Progress& progress) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, read_keys(options));
  if (const auto ssd_cache = engine_options(options.engine).ssd_cache) {
    ASSIGN_OR_RETURN(const cache::DirectoryCheck check, check_directory(*ssd_cache));
    if (!check.warning.empty()) {
      log_warn("the disk of --ssd-cache is full; what is there is read, and nothing is written until it has room",
               {{"why", check.warning}});
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::listen(options, keys));
  AppContext& context = *impl->context;
  std::unique_ptr<App> app(new App(std::move(impl)));
  const std::string warning =
      exposure_warning(exposure_of(options, keys), address_of(options.host, app->impl_->server->port()));
  if (!warning.empty()) log_warn(warning);
  if (progress) progress("listening on " + app->base_url());
  ASSIGN_OR_RETURN(context.model, source());
  context.loaded = true;
  return app;
}

std::string App::base_url() const {
  return "http://" + address_of(reachable_host(impl_->context->options.host), impl_->server->port());
}

const AppContext& App::context() const { return *impl_->context; }

Status App::stop(std::chrono::milliseconds grace) { return impl_->server->stop(grace); }

Status serve(const ServerOptions& options) {
  configure_log({options.log_level, options.log_format});
  ASSIGN_OR_RETURN(const std::unique_ptr<App> app, App::start(options, [](std::string_view line) { log_info(line); }));
  ShutdownSignal shutdown;
  const AppContext& context = app->context();
  log_info("serving", {{"model", context.model->id},
                       {"context", std::to_string(context.model->context.tokens)},
                       {"url", app->base_url()}});
  log_info("try: curl " + app->base_url() + "/v1/chat/completions -H 'Content-Type: application/json'" +
           (context.key_required ? " -H 'Authorization: Bearer <key>'" : "") +
           R"( -d '{"messages": [{"role": "user", "content": "What is the capital of France?"}]}')");
  (void)shutdown.wait();
  log_info("stopping: running requests may finish; a second signal stops at once");
  if (Status stopped = app->stop(options.shutdown_grace); !stopped) log_warn(stopped.error().message);
  log_info("stopped");
  return {};
}

}  // namespace redpoll::server
