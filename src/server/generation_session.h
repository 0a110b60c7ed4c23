// GenerationSession: one HTTP request that generates text, from the body to the last byte: prepare on a worker, submit,
// then hand on what the engine says, as one answer or as a stream. A coroutine on the connection's I/O thread; it never
// tokenizes there and never waits for the device.
#pragma once

#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/task.h"
#include "server/app_context.h"
#include "server/protocol.h"

namespace redpoll::server {

/// The handler behind every generating route. `context` must outlive the task. When the client goes, its generation
/// ends at the engine's next step, whether it was streaming or not.
[[nodiscard]] http::Task<http::Response> serve_generation(AppContext& context, const Protocol& protocol,
                                                          http::Request& request, http::Exchange& exchange);

}  // namespace redpoll::server
