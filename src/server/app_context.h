// AppContext: what the handlers of one server share, and how they read a JSON body. The App owns it; handlers borrow it
// while the server runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "api/generation.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "http/async.h"
#include "http/request.h"
#include "http/task.h"
#include "server/fit/memory_speed.h"
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
  MemorySpeed memory_speed;
  std::unique_ptr<ThreadPool> workers;  // templates and tokenizing; handlers may assume that it exists

  [[nodiscard]] api::RequestLimits limits() const;
};

/// Bodies from this size on are long work: parsing and tokenizing them takes over 30 ms.
inline constexpr std::size_t kLongBodyBytes = std::size_t{64} << 10U;

/// Runs `handler` on a worker with the JSON of the request's body, which is taken out of it. kUnsupportedMediaType for
/// another content type, kInvalidArgument for what is not JSON or has a key twice. `context` must outlive the task.
template <typename T>
[[nodiscard]] http::Task<Result<T>> run_with_json(AppContext& context, http::Request& request,
                                                  Result<T> (*handler)(const AppContext&, const json::value&)) {
  if (Status json = http::require_content_type(request, "application/json"); !json) {
    co_return std::unexpected(json.error());
  }
  const TaskLength length = request.body.size() < kLongBodyBytes ? TaskLength::kShort : TaskLength::kLong;
  auto work = [&context, handler, body = std::move(request.body)]() -> Result<T> {
    ASSIGN_OR_RETURN(const json::value parsed, parse_json(body, {.duplicate_keys = DuplicateKeys::kRefuse}));
    return handler(context, parsed);
  };
  co_return co_await http::run_on(*context.workers, std::move(work), length);
}

}  // namespace redpoll::server
