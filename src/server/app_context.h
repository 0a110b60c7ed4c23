// AppContext: what the handlers of one server share. The App owns it; handlers borrow it while the server runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "api/generation.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/served_model.h"

namespace redpoll::server {

/// Why nothing but /health answers before `AppContext::loaded`.
inline constexpr std::string_view kLoadingReason = "the model is still being loaded";

struct AppContext {
  ServerOptions options;
  std::shared_ptr<ServedModel> model;  // written once, before `loaded`; no handler but /health runs earlier
  std::atomic<bool> loaded = false;
  bool key_required = false;
  std::string version;
  Clock::TimePoint started_at;
  std::int64_t started_at_unix = 0;  // seconds
  Metrics metrics;
  std::unique_ptr<ThreadPool> workers;  // templates and tokenizing; handlers may assume that it exists

  [[nodiscard]] api::RequestLimits limits() const;
};

}  // namespace redpoll::server
