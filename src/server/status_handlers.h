// Handlers that answer from a snapshot of the engine and never wait for it: /health, /stats, /metrics, /v1/models, /.
#pragma once

#include "http/request.h"
#include "http/response.h"
#include "server/app_context.h"

namespace redpoll::server {

/// 200 {"status": "ok"}; 503 with the reason while the model loads, and when the engine has failed or stops. The only
/// one that may be called before the model is loaded.
[[nodiscard]] http::Response get_health(const AppContext& context);
[[nodiscard]] http::Response get_stats(const AppContext& context);
[[nodiscard]] http::Response get_metrics(const AppContext& context);
[[nodiscard]] http::Response get_models(const AppContext& context);
/// The `{id}` of the route is the model's id, whatever slashes it has.
[[nodiscard]] http::Response get_model(const AppContext& context, const http::Request& request);
[[nodiscard]] http::Response get_page(const AppContext& context, const http::Request& request);

}  // namespace redpoll::server
