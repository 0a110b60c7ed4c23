#include "api/openai/answer_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace redpoll::api::openai {
namespace {

// JSON has no infinity; clients of this API know this number as "impossible".
constexpr double kImpossible = -9999.0;

// Through the shortest text of the float: as a double 0.1F would print as 0.10000000149011612.
double logprob_number(float logprob) {
  if (!std::isfinite(logprob)) return kImpossible;
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, logprob).ptr;
  double number = 0;
  std::from_chars(buffer, end, number);
  return number;
}

json::value optional_logprob(const std::optional<float>& logprob) {
  if (!logprob) return nullptr;
  return logprob_number(*logprob);
}

std::string token_text(const std::string& bytes, std::string_view byte_prefix) {
  if (is_valid_utf8(bytes)) return bytes;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text(byte_prefix);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}

json::array byte_array(const std::string& bytes) {
  json::array out;
  out.reserve(bytes.size());
  for (const char c : bytes) out.emplace_back(static_cast<unsigned char>(c));
  return out;
}

json::object chat_token(const std::string& bytes, const std::optional<float>& logprob) {
  json::object out;
  out["token"] = token_text(bytes, "");
  out["logprob"] = optional_logprob(logprob);
  out["bytes"] = byte_array(bytes);
  return out;
}

// Alternatives by text, the chosen token among them. Two ids with one text keep the likelier, which comes first.
json::value legacy_alternatives(const TokenInfo& token) {
  if (!token.logprob) return nullptr;
  json::object out;
  for (const TokenAlternative& alternative : token.top) {
    out.emplace(token_text(alternative.bytes, "bytes:"), logprob_number(alternative.logprob));
  }
  out.emplace(token_text(token.bytes, "bytes:"), logprob_number(*token.logprob));
  return out;
}

double per_second(int count, double milliseconds) {
  return count > 0 && milliseconds > 0 ? count * 1000.0 / milliseconds : 0.0;
}

}  // namespace

json::object answer_head(std::string_view id_prefix, std::string_view object, const AnswerHead& head) {
  json::object out;
  out["id"] = std::string(id_prefix) + head.id;
  out["object"] = object;
  out["created"] = head.created;
  out["model"] = head.model;
  out["system_fingerprint"] = head.system_fingerprint;
  return out;
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kToolCalls: break;
  }
  return "tool_calls";
}

json::object usage_json(const Usage& usage) {
  json::object prompt_details;
  prompt_details["cached_tokens"] = usage.cached_tokens;
  json::object completion_details;
  completion_details["reasoning_tokens"] = usage.reasoning_tokens;
  json::object out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = std::int64_t{usage.prompt_tokens} + usage.completion_tokens;
  out["prompt_tokens_details"] = std::move(prompt_details);
  out["completion_tokens_details"] = std::move(completion_details);
  return out;
}

json::object timings_json(const Timings& timings, const Usage& usage) {
  json::object out;
  out["queue_ms"] = timings.queue_ms;
  out["prefill_ms"] = timings.prefill_ms;
  out["decode_ms"] = timings.decode_ms;
  out["ttft_ms"] = timings.ttft_ms;
  out["prefill_tps"] = per_second(usage.prompt_tokens - usage.cached_tokens, timings.prefill_ms);
  out["decode_tps"] = per_second(usage.completion_tokens - 1, timings.decode_ms);
  out["cached_tokens"] = usage.cached_tokens;
  return out;
}

json::array id_array(std::span<const TokenId> ids) {
  json::array out(ids.begin(), ids.end());
  return out;
}

json::array token_ids(std::span<const TokenInfo> tokens) {
  json::array out;
  out.reserve(tokens.size());
  for (const TokenInfo& token : tokens) out.emplace_back(token.id);
  return out;
}

json::value chat_logprobs(std::span<const TokenInfo> tokens) {
  json::array content;
  content.reserve(tokens.size());
  for (const TokenInfo& token : tokens) {
    json::object entry = chat_token(token.bytes, token.logprob);
    json::array top;
    for (const TokenAlternative& alternative : token.top) {
      top.emplace_back(chat_token(alternative.bytes, alternative.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.emplace_back(std::move(entry));
  }
  json::object out;
  out["content"] = std::move(content);
  return out;
}

json::value completion_logprobs(std::span<const TokenInfo> tokens) {
  json::array texts;
  json::array logprobs;
  json::array top;
  json::array offsets;
  for (const TokenInfo& token : tokens) {
    texts.emplace_back(token_text(token.bytes, "bytes:"));
    logprobs.emplace_back(optional_logprob(token.logprob));
    top.emplace_back(legacy_alternatives(token));
    offsets.emplace_back(token.text_offset);
  }
  json::object out;
  out["tokens"] = std::move(texts);
  out["token_logprobs"] = std::move(logprobs);
  out["top_logprobs"] = std::move(top);
  out["text_offset"] = std::move(offsets);
  return out;
}

std::string chunk_prefix(const json::value& head) {
  std::string text = dump_json(head);
  text.back() = ',';
  return text;
}

std::string chunk(const std::string& prefix, const json::value& choice, const json::object& extra, bool with_usage) {
  std::string out = prefix;
  out += "\"choices\":[";
  out += dump_json(choice);
  out += ']';
  for (const auto& member : extra) {
    out += ',';
    out += dump_json(json::value(member.key()));
    out += ':';
    out += dump_json(member.value());
  }
  if (with_usage) out += ",\"usage\":null";
  out += '}';
  return out;
}

std::string usage_chunk(const std::string& prefix, const Usage& usage) {
  return prefix + R"("choices":[],"usage":)" + dump_json(usage_json(usage)) + '}';
}

}  // namespace redpoll::api::openai
