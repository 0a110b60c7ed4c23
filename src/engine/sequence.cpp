#include "engine/sequence.h"

#include <utility>

namespace redpoll::engine {

Sequence::Sequence(std::shared_ptr<ActiveRequest> active_request, int choice_index, cache::SequenceCache empty_cache)
    : active(std::move(active_request)),
      choice(choice_index),
      tokens(active->request.prompt),
      cache(std::move(empty_cache)),
      history(active->request.sampling, active->request.prompt.size()) {
  tokens.reserve(tokens.size() + static_cast<std::size_t>(active->request.max_tokens));
}

}  // namespace redpoll::engine
