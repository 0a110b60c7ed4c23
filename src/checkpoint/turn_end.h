// Ids that end a generation, gathered from everywhere they are written down. Internal to checkpoint/.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace redpoll::checkpoint {

/// Special tokens that chat templates write after an assistant's turn. A checkpoint whose metadata names only the end
/// of text would otherwise go on and talk to itself.
constexpr std::array<std::string_view, 4> kTurnEndTokens = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>"};

/// Appends the turn-end tokens that `chat_template` writes. `special_id` maps the text of a special token to its id, or
/// to nullopt if the vocabulary has no such special token.
template <typename SpecialId>
void add_turn_ends(std::string_view chat_template, SpecialId special_id, std::vector<TokenId>& eos_ids) {
  for (const std::string_view token : kTurnEndTokens) {
    if (chat_template.find(token) == std::string_view::npos) continue;
    if (const std::optional<TokenId> id = special_id(token)) eos_ids.push_back(*id);
  }
}

/// Sorts and removes repetitions.
inline void normalise_ids(std::vector<TokenId>& ids) {
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
}

}  // namespace redpoll::checkpoint
