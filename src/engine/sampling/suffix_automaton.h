// SuffixAutomaton: all substrings of a text that grows (Blumer et al., 1985): which tokens have come after a substring,
// without reading the text again. Knows tokens and nothing of sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/token.h"

namespace redpoll::engine::sampling {

/// A state stands for the substrings that end at the same places, of lengths (length(suffix_of(s)), length(s)];
/// suffix_of leads to the state of their next shorter suffixes. Appending takes constant time on average; a text of n
/// tokens has at most 2n states and 3n continuations.
class SuffixAutomaton {
 public:
  using State = int;
  static constexpr State kEmpty = 0;  // of the substring of no tokens

  SuffixAutomaton();
  void append(TokenId token);

  /// The state of the last `length` tokens of what `state` stands for. States are split as the text grows: one that was
  /// found before an append has to be looked up again by this.
  [[nodiscard]] State shorten(State state, int length) const;
  /// The state of a substring that is one token longer and occurs in the text.
  [[nodiscard]] State follow(State state, TokenId token) const;

  [[nodiscard]] int length(State state) const { return states_[index(state)].length; }
  [[nodiscard]] State suffix_of(State state) const { return states_[index(state)].suffix; }
  /// Calls `visit` with every token that has come after the substrings of this state.
  template <typename Visit>
  void for_each_continuation(State state, Visit visit) const {
    for (int i = states_[index(state)].first_edge; i != kNone; i = edges_[index(i)].next) visit(edges_[index(i)].token);
  }

 private:
  static constexpr int kNone = -1;
  struct Node {
    int length = 0;
    State suffix = kNone;
    int first_edge = kNone;
  };
  struct Edge {
    TokenId token = 0;
    State target = 0;
    int next = kNone;  // of the same state
  };
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }
  static std::uint64_t key(State state, TokenId token) {
    return (static_cast<std::uint64_t>(state) << 32U) | static_cast<std::uint32_t>(token);
  }
  [[nodiscard]] Edge* find_edge(State state, TokenId token);
  void add_edge(State state, TokenId token, State target);
  [[nodiscard]] State split(State from, TokenId token);

  std::vector<Node> states_;
  std::vector<Edge> edges_;
  std::unordered_map<std::uint64_t, int> edge_of_;  // by key
  State last_ = kEmpty;                             // of the whole text
};

}  // namespace redpoll::engine::sampling
