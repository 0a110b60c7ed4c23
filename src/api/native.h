// The server's own small routes: /tokenize, /detokenize, /apply-template, /health. The first three read what
// llama-server's clients send.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "base/error.h"

namespace redpoll::api {

struct TokenizeRequest {
  std::string model;                              // "": the served one
  std::variant<std::string, Conversation> input;  // text, or messages to be rendered first
  bool add_special = false;  // the tokens that the tokenizer adds by itself; a template writes its own
  bool with_pieces = false;
  std::vector<std::string> warnings;
};
/// `{"content": text}`, the same as "text" or "prompt", or `{"messages": [...], "tools": [...],
/// "add_generation_prompt": false}`.
[[nodiscard]] Result<TokenizeRequest> parse_tokenize_request(const json::value& body);

struct TokenPiece {
  TokenId id = 0;
  std::string bytes;
};
/// {"tokens": [1, 2]}, or with pieces {"tokens": [{"id": 1, "piece": "a"}]}; a piece that is not whole characters is an
/// array of its bytes.
[[nodiscard]] std::string format_tokens(std::span<const TokenPiece> tokens, bool with_pieces);

/// Why a prompt would be found in the prompt cache up to a place and no further.
struct CacheExplanation {
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int memory_tokens = 0;
  int disk_tokens = 0;
  std::string stops_because;  // "end_of_prompt", "different_token", ...: docs/prompt-cache.md
  std::string message;
  std::optional<TokenPiece> requested = std::nullopt;  // the token at which it stops
  std::optional<TokenPiece> cached = std::nullopt;     // different_token: the one that is cached there
  std::string cache_namespace;                         // "": nothing is on disk
  std::string other_namespace = {};                    // of files that hold more; "": that is not the reason
};
/// {"prompt_tokens", "cached_tokens", "memory_tokens", "disk_tokens", "stops_because", "message", "requested": {"id",
/// "piece"}, ...}; what is absent is null.
[[nodiscard]] std::string format_explanation(const CacheExplanation& explanation);

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
  std::vector<std::string> warnings;
};
[[nodiscard]] Result<DetokenizeRequest> parse_detokenize_request(const json::value& body, const RequestLimits& limits);
[[nodiscard]] std::string format_detokenized(const std::string& content);

struct TemplateRequest {
  std::string model;
  Conversation conversation;
  std::vector<std::string> warnings;
};
/// The template fields of a chat request; the others are unknown here.
[[nodiscard]] Result<TemplateRequest> parse_template_request(const json::value& body);
[[nodiscard]] std::string format_rendered(const std::string& prompt);

/// {"status": "ok"} exactly, or the status and a reason; `status` is "ok", "loading", "failed" or "stopping".
[[nodiscard]] std::string format_health(const std::string& status, const std::string& reason);

}  // namespace redpoll::api
