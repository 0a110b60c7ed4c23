// SamplingParams: how the next token is chosen. Values are in range here; whoever fills it has checked.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/token.h"

namespace redpoll::engine {

/// Applied in this order to a copy of the logits: logit_bias, repetition, presence, frequency, DRY; then greedy if
/// temperature is 0, else top_p, min_p, typical_p, XTC, top_k and a draw from softmax(logits / temperature). The
/// values that mean "off" are the defaults.
struct SamplingParams {
  float temperature = 0.7F;
  float top_p = 1.0F;
  int top_k = 0;
  float min_p = 0.0F;
  float typical_p = 1.0F;
  float xtc_probability = 0.0F;
  float xtc_threshold = 0.1F;
  std::vector<TokenId> xtc_special_tokens;  // never removed by XTC, as the stop ids are not: line breaks, end of text

  float repetition_penalty = 1.0F;
  int repetition_context_size = 20;  // last tokens, prompt included; 0: all
  float presence_penalty = 0.0F;     // over generated tokens
  float frequency_penalty = 0.0F;    // over generated tokens

  float dry_multiplier = 0.0F;
  float dry_base = 1.75F;
  int dry_allowed_length = 2;
  std::vector<std::vector<TokenId>> dry_sequence_breakers;  // tokenized breakers

  std::vector<std::pair<TokenId, float>> logit_bias;

  /// The draw at a position depends on (seed, choice, position) only. Absent: a random seed per request.
  std::optional<std::uint64_t> seed;
};

}  // namespace redpoll::engine
