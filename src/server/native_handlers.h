// POST /tokenize, /detokenize and /apply-template: the text side of the served model, without the engine. The work is
// done on a worker.
#pragma once

#include "http/request.h"
#include "http/response.h"
#include "http/task.h"
#include "server/app_context.h"

namespace redpoll::server {

[[nodiscard]] http::Task<http::Response> post_tokenize(AppContext& context, http::Request& request);
[[nodiscard]] http::Task<http::Response> post_detokenize(AppContext& context, http::Request& request);
[[nodiscard]] http::Task<http::Response> post_apply_template(AppContext& context, http::Request& request);
/// How far the prompt cache would take a chat request, or a completion request of one prompt, and why no further.
[[nodiscard]] http::Task<http::Response> post_cache_explain(AppContext& context, http::Request& request);

}  // namespace redpoll::server
