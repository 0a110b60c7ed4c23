// DiskIndex: the books of the disk tier: which files there are, how they build on each other, and which one goes first
// when there is no room. Pure bookkeeping: it reads and removes no files, and knows the time only from others.
//
// Runs are a tree by their keys; snapshots and runs that nothing builds on are its leaves, and only leaves are given
// up, so that what is left can be found, unless somebody else has removed a file before it. Files of other
// fingerprints: see ForeignFiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/token.h"
#include "cache/disk_format.h"
#include "cache/foreign_files.h"

namespace redpoll::cache {

/// Files from which a cache for the first `num_tokens` tokens of what was asked for can be made.
struct DiskMatch {
  int num_tokens = 0;                  // 0: there is nothing, and the rest is empty
  std::vector<ContentKey> runs;        // from the start of the text; empty where runs have no data
  std::optional<ContentKey> snapshot;  // always there where caches cannot be resumed anywhere
  /// All tokens of these files from the start of the text, runs without data included. Where caches can be resumed
  /// anywhere, these may be more than num_tokens: of the last file, a run or a snapshot, a beginning may be of use
  /// alone.
  std::vector<TokenId> tokens;
};

struct DiskIndexOptions {
  std::string fingerprint;
  int run_tokens = 0;
  bool runs_have_data = true;
  bool can_resume_anywhere = true;  // only with runs_have_data
};

/// Not for several threads at a time. Where there is no memory to change the books, they stay as they were, but that
/// `add` may have struck off the file of that key.
class DiskIndex {
 public:
  explicit DiskIndex(DiskIndexOptions options);

  /// A file that was found. One of the same key is replaced.
  void add(StoredHead head, std::uint64_t bytes, FileTime used_at);
  /// With all files of other fingerprints that it knew: to free them takes time.
  void swap_foreign(ForeignFiles& files) { std::swap(foreign_, files); }
  [[nodiscard]] const ForeignFiles& foreign() const { return foreign_; }
  /// A key that is not there is fine.
  void remove(const ContentKey& key);
  /// All files but those of other fingerprints.
  void clear();

  struct Known {
    ContentKey key{};
    StoredKind kind = StoredKind::kRun;
    std::uint64_t bytes = 0;
    FileTime used_at = 0;
  };
  /// All files but those of other fingerprints, by their keys.
  [[nodiscard]] std::vector<Known> known() const;
  [[nodiscard]] bool holds(StoredKind kind, const ContentKey& key) const;
  /// Whether a file with this parent could be found.
  [[nodiscard]] bool can_be_found(const ContentKey& parent) const;
  /// The longest beginning of the tokens, `most` of them at most, that can be resumed.
  [[nodiscard]] DiskMatch find(std::span<const TokenId> tokens, int most) const;

  /// Makes these the most recently used, the first run most of all.
  void touch(const DiskMatch& match, FileTime now);
  /// The same for a file and all that it builds on.
  void touch_chain(const ContentKey& key, FileTime now);
  /// By another server, whose time the file has: nothing that `take_uses` would return.
  void touch_elsewhere(const ContentKey& key, FileTime used_at);
  struct Use {
    StoredKind kind = StoredKind::kRun;
    ContentKey key{};
    FileTime used_at = 0;
  };
  /// At most `most` files that were touched since they were last returned here.
  [[nodiscard]] std::vector<Use> take_uses(std::size_t most);
  [[nodiscard]] bool has_uses() const { return !touched_.empty(); }
  void drop_uses() { touched_.clear(); }

  /// Strikes off the leaf, or the foreign file, that was not used for the longest time, and returns it. `kept` is not
  /// given up.
  [[nodiscard]] std::optional<DiskFile> take_oldest(const ContentKey& kept);

  [[nodiscard]] int num_entries() const { return static_cast<int>(entries_.size()); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ + foreign_.bytes(); }

 private:
  struct Entry {
    StoredHead head;
    std::uint64_t bytes = 0;
    FileTime used_at = 0;
  };
  struct ByTokens {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard library's name
    [[nodiscard]] static std::span<const TokenId> tokens(const Entry* entry) { return entry->head.tokens; }
    [[nodiscard]] static std::span<const TokenId> tokens(std::span<const TokenId> tokens) { return tokens; }
    [[nodiscard]] bool operator()(const auto& left, const auto& right) const {
      return std::ranges::lexicographical_compare(tokens(left), tokens(right));
    }
  };
  using SortedByTokens = std::set<const Entry*, ByTokens>;
  struct Children {
    SortedByTokens runs;
    SortedByTokens snapshots;
  };
  using Leaf = std::pair<FileTime, ContentKey>;

  [[nodiscard]] const Children& children_of(const ContentKey& key) const;
  [[nodiscard]] SortedByTokens& siblings_of(const StoredHead& head);
  [[nodiscard]] bool is_leaf(const ContentKey& key) const { return !children_.contains(key); }
  [[nodiscard]] DiskMatch find_beginning(std::span<const TokenId> tokens, int most) const;
  [[nodiscard]] DiskMatch find_snapshot(std::span<const TokenId> tokens) const;
  [[nodiscard]] static const Entry* nearest(const SortedByTokens& entries, std::span<const TokenId> tokens);
  [[nodiscard]] static const Entry* longest_beginning(const SortedByTokens& entries, std::span<const TokenId> tokens);
  void touch(const ContentKey& key, FileTime now);
  void set_used_at(Entry& entry, FileTime used_at);
  void erase(std::map<ContentKey, Entry>::iterator entry);

  DiskIndexOptions options_;
  std::string folder_;
  ContentKey root_;
  std::map<ContentKey, Entry> entries_;
  std::map<ContentKey, Children> children_;  // by parent; those without any are not there
  std::set<Leaf> leaves_;
  ForeignFiles foreign_;
  std::set<ContentKey> touched_;
  std::uint64_t bytes_ = 0;  // of entries_
  FileTime last_use_ = 0;
};

}  // namespace redpoll::cache
