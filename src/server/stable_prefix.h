// The part of a chat prompt that is likely to begin others, too: what the template writes of tools and system messages.
// A hint for the prompt cache of models whose caches cannot go back; it changes no answer.
#pragma once

#include <span>
#include <string_view>

#include "api/generation.h"
#include "server/served_model.h"

namespace redpoll::server {

/// How many of `ids`, the tokens of `prompt`, which the template made of `conversation`, would be the same if its first
/// message that is not the system's said something else; 0 when there are no tools and no system messages, or when the
/// template does not say. Renders and tokenizes that part once more.
[[nodiscard]] int num_stable_tokens(const ServedModel& model, const api::Conversation& conversation,
                                    std::string_view prompt, std::span<const TokenId> ids);

}  // namespace redpoll::server
