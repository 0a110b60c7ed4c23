// GET /fit: the memory arithmetic for the served model, and how fast it should answer.
#pragma once

#include "http/response.h"
#include "http/task.h"
#include "server/app_context.h"

namespace redpoll::server {

/// Of the context that the query asks for, or else of the one that is served. The first one that comes while nothing
/// runs takes half a second: see MemorySpeed.
[[nodiscard]] http::Task<http::Response> get_fit(AppContext& context, http::Request& request);

}  // namespace redpoll::server
