#include "engine/sampling/suffix_automaton.h"

namespace redpoll::engine::sampling {

SuffixAutomaton::SuffixAutomaton() : states_(1) {}

void SuffixAutomaton::append(TokenId token) {
  const auto whole = static_cast<State>(states_.size());
  states_.push_back({.length = length(last_) + 1});
  State state = last_;
  for (; state != kNone && find_edge(state, token) == nullptr; state = suffix_of(state)) add_edge(state, token, whole);
  // The longest suffix that has occurred before, if any, ends in what comes after `state`.
  states_[index(whole)].suffix = state == kNone ? kEmpty : split(state, token);
  last_ = whole;
}

/// The state of `from` with the token, and of nothing longer.
SuffixAutomaton::State SuffixAutomaton::split(State from, TokenId token) {
  const State mixed = find_edge(from, token)->target;
  if (length(mixed) == length(from) + 1) return mixed;
  const auto shorter = static_cast<State>(states_.size());
  states_.push_back({.length = length(from) + 1, .suffix = suffix_of(mixed)});
  for (int i = states_[index(mixed)].first_edge; i != kNone; i = edges_[index(i)].next) {
    add_edge(shorter, edges_[index(i)].token, edges_[index(i)].target);
  }
  for (State state = from; state != kNone; state = suffix_of(state)) {
    Edge* edge = find_edge(state, token);
    if (edge == nullptr || edge->target != mixed) break;
    edge->target = shorter;
  }
  states_[index(mixed)].suffix = shorter;
  return shorter;
}

SuffixAutomaton::State SuffixAutomaton::shorten(State state, int length) const {
  while (state != kEmpty && this->length(suffix_of(state)) >= length) state = suffix_of(state);
  return state;
}

SuffixAutomaton::State SuffixAutomaton::follow(State state, TokenId token) const {
  return edges_[index(edge_of_.at(key(state, token)))].target;
}

SuffixAutomaton::Edge* SuffixAutomaton::find_edge(State state, TokenId token) {
  const auto found = edge_of_.find(key(state, token));
  return found == edge_of_.end() ? nullptr : &edges_[index(found->second)];
}

void SuffixAutomaton::add_edge(State state, TokenId token, State target) {
  const auto edge = static_cast<int>(edges_.size());
  edges_.push_back({.token = token, .target = target, .next = states_[index(state)].first_edge});
  states_[index(state)].first_edge = edge;
  edge_of_.emplace(key(state, token), edge);
}

}  // namespace redpoll::engine::sampling
