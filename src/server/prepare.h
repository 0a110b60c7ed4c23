// From a parsed request to prompts of token ids and sampling parameters: templates, tokenizing, precedence of values.
// Runs on a worker: a long prompt takes a while.
#pragma once

#include <span>
#include <string>

#include "api/generation.h"
#include "base/error.h"
#include "server/generation.h"
#include "server/options.h"
#include "server/served_model.h"
#include "text/volatile_lines.h"

namespace redpoll::server {

/// Without max_tokens in request, flags and generation_config.json: as many as the context leaves. kInvalidArgument
/// for what the template refuses and for a model without one.
[[nodiscard]] Result<PreparedGeneration> prepare_chat(const ServedModel& model, const SamplingDefaults& flags,
                                                      const api::ChatRequest& request);

/// Text prompts get the special tokens that the tokenizer adds; token ids are taken as they are.
[[nodiscard]] Result<PreparedGeneration> prepare_completion(const ServedModel& model, const SamplingDefaults& flags,
                                                            const api::CompletionRequest& request);

/// Takes the volatile lines off the beginning of the first system message; how many they were. Of a message that came
/// in parts only the first is looked at, and its end is the end of a line. A message of which nothing is left goes,
/// too, as if it had not been sent, unless it is the only one.
int leave_out_volatile_lines(const text::VolatileLines& lines, api::Conversation& conversation);

/// The prompt that the model's template makes of a conversation. Where it fails because of a tool, the error names it.
[[nodiscard]] Result<std::string> render_conversation(const ServedModel& model, const api::Conversation& conversation);

}  // namespace redpoll::server
