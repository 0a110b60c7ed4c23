// TokenCounts: how often each token occurs among some. Adding, removing and looking at the next distinct token take
// constant time.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/token.h"

namespace redpoll::engine::sampling {

class TokenCounts {
 public:
  struct Entry {
    TokenId id = 0;
    int count = 0;  // at least 1
  };

  void add(TokenId id) {
    const auto [place, is_new] = places_.try_emplace(id, entries_.size());
    if (is_new) entries_.push_back({.id = id, .count = 0});
    ++entries_[place->second].count;
  }

  /// One that was added.
  void remove(TokenId id) {
    const auto place = places_.find(id);
    const std::size_t index = place->second;
    if (--entries_[index].count > 0) return;
    places_.erase(place);
    if (index + 1 < entries_.size()) {
      entries_[index] = entries_.back();
      places_[entries_[index].id] = index;
    }
    entries_.pop_back();
  }

  /// Each distinct token once, in no particular order.
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<TokenId, std::size_t> places_;  // in entries_
};

}  // namespace redpoll::engine::sampling
