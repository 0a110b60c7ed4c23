// What /stats says about each request: its choices taken together.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"

namespace redpoll::engine {

/// One entry per request, oldest first. The state is that of its most advanced choice, computed_tokens are that
/// choice's, generated_tokens are all that its unfinished choices have.
[[nodiscard]] std::vector<RequestStats> summarize_requests(const std::vector<std::unique_ptr<Sequence>>& sequences);

}  // namespace redpoll::engine
