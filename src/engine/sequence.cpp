#include "engine/sequence.h"

#include <utility>

namespace redpoll::engine {

Sequence::Sequence(std::shared_ptr<ActiveRequest> active_request, int choice_index, cache::SequenceCache empty_cache)
    : active(std::move(active_request)),
      choice(choice_index),
      tokens(active->request.prompt),
      cache(std::move(empty_cache)) {
  tokens.reserve(tokens.size() + static_cast<std::size_t>(active->request.max_tokens));
}

void Sequence::append(TokenId id) {
  tokens.push_back(id);
  const SamplingParams& params = request().sampling;
  if (params.presence_penalty != 0 || params.frequency_penalty != 0) ++generated_counts[id];
}

}  // namespace redpoll::engine
