// The JSON that chat and completion answers share: head, usage, timings, logprobs and the frame of a chunk.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "base/json.h"

namespace redpoll::api::openai {

/// id, object, created, model, system_fingerprint.
[[nodiscard]] json::object answer_head(std::string_view id_prefix, std::string_view object, const AnswerHead& head);

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);
[[nodiscard]] json::object usage_json(const Usage& usage);
/// Rates follow from the counts: cached prompt tokens were not computed, and the first generated token belongs to the
/// prefill. A rate over no time is 0.
[[nodiscard]] json::object timings_json(const Timings& timings, const Usage& usage);

[[nodiscard]] json::array id_array(std::span<const TokenId> ids);
[[nodiscard]] json::array token_ids(std::span<const TokenInfo> tokens);

/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}. A token that is not whole characters shows its bytes
/// as \xf0\x9f in `token`; `bytes` is exact.
[[nodiscard]] json::value chat_logprobs(std::span<const TokenInfo> tokens);

/// The legacy shape: tokens, token_logprobs, top_logprobs, text_offset. A token that is not whole characters is written
/// as bytes:\xf0\x9f.
[[nodiscard]] json::value completion_logprobs(std::span<const TokenInfo> tokens);

/// The head as text that ends in a comma, so that a chunk costs no more than its choice.
[[nodiscard]] std::string chunk_prefix(const json::value& head);
/// A chunk with one choice, the fields of `extra`, and "usage": null when a usage chunk will follow.
[[nodiscard]] std::string chunk(const std::string& prefix, const json::value& choice, const json::object& extra,
                                bool with_usage);
[[nodiscard]] std::string usage_chunk(const std::string& prefix, const Usage& usage);

}  // namespace redpoll::api::openai
