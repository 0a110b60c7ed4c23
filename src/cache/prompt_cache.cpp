#include "cache/prompt_cache.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <string>
#include <utility>

namespace redpoll::cache {

/// The tokens on the way from the root to a node, its own edge last, are those of its entry.
struct PromptCache::Node {
  Node* parent = nullptr;
  std::vector<TokenId> edge;                          // from the parent; empty for the root only
  int depth = 0;                                      // tokens up to its end
  std::map<TokenId, std::unique_ptr<Node>> children;  // by the first token of their edges
  std::optional<SequenceCache> entry;
  std::uint64_t used_at = 0;
  std::uint64_t inserted_at = 0;
  std::vector<int> needless;  // depths of entries that this one has made so; none where all layers see all tokens
};

namespace {

/// Calls visit(node) for the node and all below it until one call returns true; returns that node.
template <typename Node, typename Visit>
Node* find_below(Node& node, const Visit& visit) {
  if (visit(node)) return &node;
  for (const auto& [token, child] : node.children) {
    if (Node* found = find_below<Node>(*child, visit)) return found;
  }
  return nullptr;
}

}  // namespace

PromptCache::PromptCache(CachePools& pools, std::vector<std::size_t> bytes_per_block, std::size_t max_bytes)
    : pools_(pools),
      goes_back_(pools.can_go_back(std::numeric_limits<int>::max())),
      bytes_per_block_(std::move(bytes_per_block)),
      root_(std::make_unique<Node>()) {
  stats_.max_bytes = max_bytes;
  for (int group = 0; group < pools.num_groups(); ++group) {
    num_holders_.emplace_back(static_cast<std::size_t>(pools.pool(group).num_blocks()));
  }
}

PromptCache::~PromptCache() = default;

PromptCache::Place PromptCache::descend(std::span<const TokenId> tokens) const {
  Place place{.node = root_.get(), .num_tokens = 0};
  while (place.num_tokens < static_cast<int>(tokens.size())) {
    const auto rest = tokens.subspan(static_cast<std::size_t>(place.num_tokens));
    const auto child = place.node->children.find(rest.front());
    if (child == place.node->children.end()) break;
    place.node = child->second.get();
    const auto differ = std::ranges::mismatch(place.node->edge, rest);
    place.num_tokens += static_cast<int>(differ.in1 - place.node->edge.begin());
    if (differ.in1 != place.node->edge.end()) break;
  }
  return place;
}

/// From the place where tokens part upwards: the entries below a node of the way have its tokens in common, and no more
/// if they were not below the one before.
PromptCache::Match PromptCache::best(std::span<const TokenId> tokens, int most) {
  const Place place = descend(tokens);
  for (Node* node = place.node; node != nullptr; node = node->parent) {
    const int common = std::min({node->depth, place.num_tokens, most});
    if (common <= 0) return {};
    const auto can_resume = [common](const Node& below) { return below.entry && below.entry->can_resume_at(common); };
    if (Node* found = find_below(*node, can_resume)) return {.node = found, .num_tokens = common};
  }
  return {};
}

int PromptCache::find(std::span<const TokenId> tokens, int most) {
  const Match match = best(tokens, most);
  if (match.node != nullptr) match.node->used_at = ++clock_;
  return match.num_tokens;
}

int PromptCache::num_shared(int group, std::span<const TokenId> tokens, int most) {
  const Match match = best(tokens, most);
  if (match.node == nullptr) return 0;
  match.node->used_at = ++clock_;
  return match.node->entry->num_shared(group, match.num_tokens);
}

std::optional<SequenceCache::Fork> PromptCache::take(std::span<const TokenId> tokens, int most) {
  const Match match = best(tokens, most);
  std::optional<SequenceCache::Fork> fork;
  if (match.node != nullptr) fork = match.node->entry->fork(match.num_tokens);
  if (!fork) {
    ++stats_.misses;
    return std::nullopt;
  }
  match.node->used_at = ++clock_;
  ++stats_.hits;
  stats_.hit_tokens += static_cast<std::size_t>(match.num_tokens);
  return fork;
}

const SequenceCache* PromptCache::entry_of(std::span<const TokenId> tokens) {
  const Match match = best(tokens, static_cast<int>(tokens.size()));
  const bool is_whole = match.node != nullptr && match.num_tokens == static_cast<int>(tokens.size());
  return is_whole ? &*match.node->entry : nullptr;
}

std::vector<std::vector<TokenId>> PromptCache::entries() const {
  std::vector<const Node*> nodes;
  find_below(std::as_const(*root_), [&](const Node& node) {
    if (node.entry) nodes.push_back(&node);
    return false;
  });
  std::ranges::sort(nodes, std::greater{}, &Node::used_at);
  std::vector<std::vector<TokenId>> entries;
  entries.reserve(nodes.size());
  for (const Node* node : nodes) {
    const std::vector<TokenId> tokens = tokens_of(*node);
    entries.push_back(tokens);
    for (const int depth : node->needless) entries.emplace_back(tokens.begin(), tokens.begin() + depth);
  }
  return entries;
}

PromptCache::Lender PromptCache::longest(std::span<const TokenId> tokens) const {
  const Place place = descend(tokens);
  if (place.num_tokens == 0) return {};
  const Node* node = find_below(std::as_const(*place.node), [](const Node& below) { return below.entry.has_value(); });
  return {.cache = &*node->entry, .num_tokens = place.num_tokens};
}

PromptCache::Beginning PromptCache::look_at(std::span<const TokenId> tokens, int most) {
  const Place place = descend(tokens);
  Beginning beginning{.num_resumable = best(tokens, most).num_tokens,
                      .num_common = place.num_tokens,
                      .num_evicted = evicted_.longest(tokens)};
  const auto& [node, num_tokens] = place;
  if (num_tokens < node->depth) {
    beginning.next = node->edge[node->edge.size() - static_cast<std::size_t>(node->depth - num_tokens)];
  } else if (!node->children.empty()) {
    beginning.next = node->children.begin()->first;
  }
  return beginning;
}

std::vector<TokenId> PromptCache::tokens_of(const Node& node) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(node.depth));
  for (const Node* at = &node; at->parent != nullptr; at = at->parent) {
    std::ranges::copy(at->edge, tokens.begin() + at->parent->depth);
  }
  return tokens;
}

void PromptCache::insert(std::span<const TokenId> tokens, SequenceCache cache) {
  const int num_tokens = static_cast<int>(tokens.size());
  CHECK(cache.num_computed() == num_tokens, "an entry is of all its tokens and of no others");
  if (num_tokens == 0 || bytes_of(cache) > stats_.max_bytes) return;
  const Match known = best(tokens, num_tokens);
  if (known.num_tokens == num_tokens) {
    known.node->used_at = ++clock_;
    return;
  }
  Node* node = make_node(tokens);
  keep_entry(*node, std::move(cache));
  drop_beginnings(*node);
  if (observer_ != nullptr) observer_->on_insert(tokens);
  while (stats_.bytes > stats_.max_bytes && evict()) {
  }
}

int PromptCache::most_kept(int num_tokens) const {
  const SequenceCache none(pools_);
  const auto is_kept = [&](int num) {
    std::size_t bytes = 0;
    for (int group = 0; group < none.num_groups(); ++group) {
      bytes +=
          static_cast<std::size_t>(none.num_missing(group, num)) * bytes_per_block_[static_cast<std::size_t>(group)];
    }
    return bytes <= stats_.max_bytes;
  };
  const auto numbers = std::views::iota(1, num_tokens + 1);
  return static_cast<int>(std::ranges::partition_point(numbers, is_kept) - numbers.begin());
}

void PromptCache::keep_entry(Node& node, SequenceCache cache) {
  CHECK(!node.entry, "an entry can be resumed at its own end");
  node.entry.emplace(std::move(cache));
  node.needless.clear();
  node.used_at = node.inserted_at = ++clock_;
  ++stats_.entries;
  count_holder(*node.entry, 1);
}

/// One entry more or fewer for each block of this one.
void PromptCache::count_holder(const SequenceCache& entry, int change) {
  for (int group = 0; group < entry.num_groups(); ++group) {
    std::vector<int>& counts = num_holders_[static_cast<std::size_t>(group)];
    const std::size_t bytes = bytes_per_block_[static_cast<std::size_t>(group)];
    for (const BlockId block : entry.table(group)) {
      if (block == kNoBlock) continue;
      int& count = counts[static_cast<std::size_t>(block)];
      if (count == 0) stats_.bytes += bytes;
      count += change;
      if (count == 0) stats_.bytes -= bytes;
    }
  }
}

/// The node that ends with these tokens: an edge is cut where they leave it.
PromptCache::Node* PromptCache::make_node(std::span<const TokenId> tokens) {
  const Place place = descend(tokens);
  Node* node = place.num_tokens < place.node->depth ? cut_edge(*place.node, place.num_tokens) : place.node;
  const auto rest = tokens.subspan(static_cast<std::size_t>(place.num_tokens));
  if (rest.empty()) return node;
  auto leaf = std::make_unique<Node>();
  leaf->parent = node;
  leaf->edge.assign(rest.begin(), rest.end());
  leaf->depth = static_cast<int>(tokens.size());
  return (node->children[rest.front()] = std::move(leaf)).get();
}

/// A new node between this one and its parent. All memory is had before anything is changed.
PromptCache::Node* PromptCache::cut_edge(Node& node, int depth) {
  auto upper = std::make_unique<Node>();
  const auto cut = node.edge.begin() + (depth - node.parent->depth);
  upper->parent = node.parent;
  upper->edge.assign(node.edge.begin(), cut);
  upper->depth = depth;
  std::unique_ptr<Node>& lower_slot = upper->children[*cut];
  std::unique_ptr<Node>& upper_slot = node.parent->children.at(node.edge.front());
  node.edge.erase(node.edge.begin(), cut);
  node.parent = upper.get();
  lower_slot = std::move(upper_slot);
  upper_slot = std::move(upper);
  return upper_slot.get();
}

/// Entries that the node's makes needless.
void PromptCache::drop_beginnings(Node& node) {
  for (Node* above = node.parent; above != nullptr;) {
    Node* next = above->parent;
    if (above->entry && node.entry->can_resume_at(above->depth)) {
      if (!goes_back_) {
        node.needless.push_back(above->depth);
        std::ranges::move(above->needless, std::back_inserter(node.needless));
      }
      drop_entry(*above);
    }
    above = next;
  }
}

void PromptCache::drop_entry(Node& node) {
  count_holder(*node.entry, -1);
  node.entry.reset();
  --stats_.entries;
  prune(&node);
}

/// Removes nodes that hold nothing, and joins edges where nothing parts.
void PromptCache::prune(Node* node) {
  while (node->parent != nullptr && !node->entry && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(node->edge.front());
    node = parent;
  }
  if (node->parent == nullptr || node->entry || node->children.size() != 1) return;
  std::unique_ptr<Node>& lower_slot = node->children.begin()->second;
  std::vector<TokenId> joined;
  joined.reserve(node->edge.size() + lower_slot->edge.size());  // before anything is changed
  joined.insert(joined.end(), node->edge.begin(), node->edge.end());
  joined.insert(joined.end(), lower_slot->edge.begin(), lower_slot->edge.end());
  std::unique_ptr<Node>& slot = node->parent->children.at(node->edge.front());
  std::unique_ptr<Node> lower = std::move(lower_slot);
  lower->edge = std::move(joined);
  lower->parent = node->parent;
  slot = std::move(lower);  // the end of `node`
}

bool PromptCache::evict() {
  Node* oldest = nullptr;
  find_below(*root_, [&](Node& node) {
    if (node.entry && (oldest == nullptr || node.used_at < oldest->used_at)) oldest = &node;
    return false;
  });
  if (oldest == nullptr) return observer_ != nullptr && observer_->give_up();
  const std::vector<TokenId> tokens = tokens_of(*oldest);
  evicted_.note(tokens);
  if (observer_ != nullptr && oldest->inserted_at <= settled_at_) tell_of_eviction(*oldest, tokens);
  drop_entry(*oldest);
  return true;
}

/// With what only this entry still holds: beginnings that it has made needless, but on disk would not.
void PromptCache::tell_of_eviction(const Node& node, std::span<const TokenId> tokens) {
  observer_->on_evict(tokens, *node.entry);
  for (const int depth : node.needless) {
    if (!node.entry->can_resume_at(depth)) continue;
    observer_->on_evict(tokens.first(static_cast<std::size_t>(depth)), *node.entry);
  }
}

void PromptCache::clear() noexcept {
  root_->children.clear();
  for (std::vector<int>& counts : num_holders_) std::ranges::fill(counts, 0);
  stats_.entries = 0;
  stats_.bytes = 0;
}

void PromptCache::distrust() noexcept {
  clear();
  if (observer_ != nullptr) observer_->on_distrust();
}

std::size_t PromptCache::bytes_of(const SequenceCache& cache) const {
  std::size_t bytes = 0;
  for (int group = 0; group < cache.num_groups(); ++group) {
    const auto table = cache.table(group);
    const auto num_blocks = table.size() - static_cast<std::size_t>(std::ranges::count(table, kNoBlock));
    bytes += num_blocks * bytes_per_block_[static_cast<std::size_t>(group)];
  }
  return bytes;
}

Status PromptCache::check_integrity() const {
  int num_entries = 0;
  std::vector<std::vector<int>> num_holders;
  for (const std::vector<int>& counts : num_holders_) num_holders.emplace_back(counts.size());
  const Node* wrong = find_below(std::as_const(*root_), [&](const Node& node) {
    num_entries += node.entry ? 1 : 0;
    for (int group = 0; node.entry && group < node.entry->num_groups(); ++group) {
      for (const BlockId block : node.entry->table(group)) {
        if (block != kNoBlock) ++num_holders[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)];
      }
    }
    const bool is_root = node.parent == nullptr;
    const bool is_needless = !is_root && !node.entry && node.children.size() < 2;
    const bool has_wrong_depth = !is_root && node.depth != node.parent->depth + static_cast<int>(node.edge.size());
    const bool has_wrong_entry = node.entry && node.entry->num_computed() != node.depth;
    return is_needless || has_wrong_depth || has_wrong_entry || is_root != node.edge.empty();
  });
  if (wrong != nullptr || num_entries != stats_.entries) {
    return fail(ErrorCode::kInternal, "the prompt cache's tree contradicts itself");
  }
  return check_holders(num_holders);
}

/// Of each block as many entries as have been counted in the tree, no more than hold it at all, and its bytes.
Status PromptCache::check_holders(const std::vector<std::vector<int>>& counted) const {
  std::size_t bytes = 0;
  for (int group = 0; group < pools_.num_groups(); ++group) {
    const std::vector<int>& counts = counted[static_cast<std::size_t>(group)];
    for (BlockId block = 0; block < static_cast<BlockId>(counts.size()); ++block) {
      const int count = counts[static_cast<std::size_t>(block)];
      if (count > 0) bytes += bytes_per_block_[static_cast<std::size_t>(group)];
      if (count == num_holders(group, block) && count <= pools_.pool(group).num_users(block)) continue;
      return fail(ErrorCode::kInternal, "block " + std::to_string(block) + " of group " + std::to_string(group) +
                                            ": expected " + std::to_string(count) + " entries, got " +
                                            std::to_string(num_holders(group, block)) + ", of " +
                                            std::to_string(pools_.pool(group).num_users(block)) + " users");
    }
  }
  if (bytes == stats_.bytes) return {};
  return fail(ErrorCode::kInternal, "the prompt cache's bytes: expected " + std::to_string(bytes) +
                                        " as its entries hold, got " + std::to_string(stats_.bytes));
}

}  // namespace redpoll::cache
