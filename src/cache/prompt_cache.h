// PromptCache: caches of sequences that have ended, or paused at a useful place, to be gone on from by others whose
// tokens begin alike. A radix tree over token ids: a walk along the tokens finds the place where they part, and entries
// are looked at from there upwards.
//
// An entry is a SequenceCache, which owns its blocks by reference: entries and running sequences share what they have
// in common, and an entry that is evicted frees only what nobody else holds. Where layers have windows or states an
// entry can be resumed only near its end, so it is a snapshot; where all layers see all tokens, anywhere, and then an
// entry that is the beginning of another says nothing new and is not kept.
//
// Knows no requests and no memory: contents are copied by whoever owns the storage, as for every fork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "cache/evicted_prompts.h"
#include "cache/sequence_cache.h"

namespace redpoll::cache {

struct PromptCacheStats {
  int entries = 0;
  std::size_t bytes = 0;      // of blocks that entries hold, each counted once, also if a sequence shares it
  std::size_t max_bytes = 0;  // beyond which the least recently used are evicted
  std::size_t hits = 0;       // of `take`
  std::size_t misses = 0;
  std::size_t hit_tokens = 0;
};

/// Is told what comes and goes, to keep copies elsewhere. It must not change the cache.
class PromptCacheObserver {
 public:
  virtual ~PromptCacheObserver() = default;
  /// An entry of these tokens is new. Its contents may not be written yet: see PromptCache::settle.
  virtual void on_insert(std::span<const TokenId> tokens) = 0;
  /// An entry whose contents are written is about to be given up for want of room: all tokens of `cache`, or fewer at
  /// whose end it can be resumed.
  virtual void on_evict(std::span<const TokenId> tokens, const SequenceCache& cache) = 0;
  /// There is nothing left to evict: gives back blocks that it holds for an entry to come; false if it holds none.
  virtual bool give_up() = 0;
  /// Contents of entries are found to be wrong, and all entries have been given up.
  virtual void on_distrust() = 0;
};

/// Used by the engine thread only; the pools must outlive it.
class PromptCache {
 public:
  /// `bytes_per_block` by group.
  PromptCache(CachePools& pools, std::vector<std::size_t> bytes_per_block, std::size_t max_bytes);
  ~PromptCache();
  PromptCache(const PromptCache&) = delete;
  PromptCache& operator=(const PromptCache&) = delete;

  /// How many of the first `most` tokens some entry could be resumed at. Makes the entry the most recently used.
  [[nodiscard]] int find(std::span<const TokenId> tokens, int most);
  /// How many of the first tokens some entry has, whether it can be resumed there or not.
  [[nodiscard]] int num_common(std::span<const TokenId> tokens) const { return descend(tokens).num_tokens; }
  /// Blocks of the group that `take` would share. Likewise.
  [[nodiscard]] int num_shared(int group, std::span<const TokenId> tokens, int most);
  /// A cache for as many tokens as `find` says. Nothing when that is none, or when a block that must be copied cannot
  /// be had.
  [[nodiscard]] std::optional<SequenceCache::Fork> take(std::span<const TokenId> tokens, int most);
  /// Keeps the cache of these tokens, all of which are computed, unless there is one already that can be resumed there,
  /// or it is larger than all that may be kept. If something is thrown, the books are in order.
  void insert(std::span<const TokenId> tokens, SequenceCache cache);
  /// The most tokens, up to so many, of which a cache is never too large for `insert`, whatever its windows hold.
  [[nodiscard]] int most_kept(int num_tokens) const;
  /// Gives up the least recently used entry; false if there is none.
  bool evict();
  void clear() noexcept;
  /// Likewise, because something that was computed from entries is wrong.
  void distrust() noexcept;

  /// The observer, nullptr for none, must outlive the cache or be replaced.
  void set_observer(PromptCacheObserver* observer) { observer_ = observer; }
  /// The contents of all entries are written now: the copies that they need have been made.
  void settle() { settled_at_ = clock_; }
  /// An entry that has all of these tokens and can be resumed at their end; nullptr if there is none.
  [[nodiscard]] const SequenceCache* entry_of(std::span<const TokenId> tokens);
  /// Tokens of all entries, of the most recently used one first. After those of an entry come those of entries that it
  /// has made needless here, where they may be needed elsewhere: there is no going back to their ends.
  [[nodiscard]] std::vector<std::vector<TokenId>> entries() const;
  struct Lender {
    const SequenceCache* cache = nullptr;  // nullptr: none
    int num_tokens = 0;                    // that it has in common, from the first on
  };
  /// An entry that has most of the tokens in common, whether it can be resumed there or not.
  [[nodiscard]] Lender longest(std::span<const TokenId> tokens) const;

  struct Beginning {
    int num_resumable = 0;             // tokens that `find` would say; nothing becomes recently used
    int num_common = 0;                // tokens that some entry has, too
    std::optional<TokenId> next = {};  // with which one that has them goes on
    int num_evicted = 0;               // tokens that entries had which are gone, about
  };
  [[nodiscard]] Beginning look_at(std::span<const TokenId> tokens, int most);

  /// Entries that hold the block.
  [[nodiscard]] int num_holders(int group, BlockId block) const {
    return num_holders_[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)];
  }
  [[nodiscard]] bool empty() const { return stats_.entries == 0; }
  [[nodiscard]] PromptCacheStats stats() const { return stats_; }
  /// Fails when the books contradict themselves.
  [[nodiscard]] Status check_integrity() const;

 private:
  struct Node;
  struct Match {
    Node* node = nullptr;  // whose entry can be resumed at
    int num_tokens = 0;
  };
  struct Place {
    Node* node = nullptr;  // the last one that was reached; its edge may be reached in part only
    int num_tokens = 0;    // that are the same
  };

  [[nodiscard]] Place descend(std::span<const TokenId> tokens) const;
  [[nodiscard]] Match best(std::span<const TokenId> tokens, int most);
  [[nodiscard]] Node* make_node(std::span<const TokenId> tokens);
  [[nodiscard]] static Node* cut_edge(Node& node, int depth);
  [[nodiscard]] std::size_t bytes_of(const SequenceCache& cache) const;
  [[nodiscard]] static std::vector<TokenId> tokens_of(const Node& node);
  void keep_entry(Node& node, SequenceCache cache);
  void drop_entry(Node& node);
  void count_holder(const SequenceCache& entry, int change);
  void prune(Node* node);
  void drop_beginnings(Node& node);
  void tell_of_eviction(const Node& node, std::span<const TokenId> tokens);
  [[nodiscard]] Status check_holders(const std::vector<std::vector<int>>& counted) const;

  CachePools& pools_;
  bool goes_back_;  // from everywhere to everywhere: all layers see all tokens
  std::vector<std::size_t> bytes_per_block_;
  std::unique_ptr<Node> root_;
  std::vector<std::vector<int>> num_holders_;  // by group and block: entries
  std::uint64_t clock_ = 0;                    // of uses
  std::uint64_t settled_at_ = 0;
  PromptCacheObserver* observer_ = nullptr;
  EvictedPrompts evicted_;
  PromptCacheStats stats_;
};

}  // namespace redpoll::cache
