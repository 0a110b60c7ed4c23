// GET /fit: the memory arithmetic for the served model. It says nothing of this machine's speed: measuring that would
// take memory and all cores from the requests that are being answered. `redpoll fit` measures it.
#pragma once

#include "http/response.h"
#include "server/app_context.h"

namespace redpoll::server {

/// Of the context that the query asks for, or else of the one that is served.
[[nodiscard]] http::Response get_fit(const AppContext& context, const http::Request& request);

}  // namespace redpoll::server
