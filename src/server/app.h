// App: the whole server as one object. Starts the HTTP server and the workers, loads the model, and takes them down in
// the right order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::server {

struct AppContext;

/// Called once, on the calling thread, after the server has begun to listen.
using ModelSource = std::function<Result<std::shared_ptr<ServedModel>>()>;

class App {
 public:
  /// Finds the model, listens, then loads it; until that is done every route answers 503. Errors are worded for the
  /// person who typed the command.
  [[nodiscard]] static Result<std::unique_ptr<App>> start(const ServerOptions& options, const Progress& progress);
  /// The same around a model from elsewhere; `options.model` and `alias` are not read.
  [[nodiscard]] static Result<std::unique_ptr<App>> start_with(const ServerOptions& options, const ModelSource& source,
                                                               const Progress& progress = {});
  ~App();  // stops with no grace unless `stop` was called
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  /// "http://127.0.0.1:8080", with the real port.
  [[nodiscard]] std::string base_url() const;
  [[nodiscard]] const AppContext& context() const;

  /// Takes no new connections and lets what runs finish for up to `grace`. kTimeout says how many were cut off.
  [[nodiscard]] Status stop(std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit App(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Serves until SIGINT or SIGTERM, then stops in order; a second signal ends the process. What `redpoll serve` does:
/// prints progress and how to call the server on standard error, and returns when everything has been taken down.
[[nodiscard]] Status serve(const ServerOptions& options);

}  // namespace redpoll::server
