// AppContext: what the handlers of one server share. The App owns it; handlers borrow it while the server runs.
#pragma once

#include <memory>
#include <string>

#include "api/generation.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::server {

struct AppContext {
  ServerOptions options;
  std::shared_ptr<ServedModel> model;
  bool key_required = false;
  std::string version;
  Clock::TimePoint started_at;
  std::int64_t started_at_unix = 0;  // seconds
  Metrics metrics;
  std::unique_ptr<ThreadPool> workers;  // templates and tokenizing; handlers may assume that it exists

  [[nodiscard]] api::RequestLimits limits() const;
};

}  // namespace redpoll::server
