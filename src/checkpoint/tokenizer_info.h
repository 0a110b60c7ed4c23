// TokenizerInfo: the tokens with a role and the ids that end a generation. Knows nothing of encoding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace redpoll::checkpoint {

/// A token with a role, such as the one that begins every text.
struct SpecialToken {
  std::string text;
  std::optional<TokenId> id;  // nullopt if the vocabulary does not have the text
};

/// What surrounds the vocabulary. tokenizer.json already adds BOS and EOS where add_bos_token and add_eos_token say so:
/// encode text of a rendered chat template without special tokens, or it begins with two.
struct TokenizerInfo {
  std::optional<SpecialToken> bos;
  std::optional<SpecialToken> eos;
  std::optional<SpecialToken> pad;
  std::optional<SpecialToken> unk;
  bool add_bos_token = false;
  bool add_eos_token = false;
  /// Every id that ends a generation: the union of generation_config.json, config.json, the tokenizer's EOS, GGUF's
  /// end-of-turn ids and the turn-end token that the chat template writes. Sorted, without repetition.
  std::vector<TokenId> eos_ids;
};

}  // namespace redpoll::checkpoint
