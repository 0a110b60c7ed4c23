// The part of a chat request that a template reads: messages, tools and template arguments, checked and normalised.
#pragma once

#include "api/generation.h"
#include "base/error.h"

namespace redpoll::api::openai {

/// Reads `messages`, `tools`, `tool_choice`, `parallel_tool_calls`, `chat_template_kwargs` and `reasoning_effort`.
[[nodiscard]] Result<Conversation> read_conversation(JsonReader& reader);

/// Reads `messages` into `conversation`, as templates expect them; at least one.
[[nodiscard]] Status read_messages(JsonReader& reader, Conversation& conversation);

/// Reads `tools` and what goes with them into `conversation`: tools with `type` and `parameters` filled in, or none
/// when `tool_choice` is "none". Forcing a call is refused: nothing constrains the output yet.
[[nodiscard]] Status read_tools(JsonReader& reader, Conversation& conversation);

}  // namespace redpoll::api::openai
