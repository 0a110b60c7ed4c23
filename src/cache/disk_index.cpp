#include "cache/disk_index.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace redpoll::cache {
namespace {

int num_common(std::span<const TokenId> left, std::span<const TokenId> right) {
  return static_cast<int>(std::ranges::mismatch(left, right).in1 - left.begin());
}

std::span<const TokenId> first(std::span<const TokenId> tokens, int num_tokens) {
  return tokens.first(static_cast<std::size_t>(num_tokens));
}

std::span<const TokenId> after(std::span<const TokenId> tokens, int num_tokens) {
  return tokens.subspan(static_cast<std::size_t>(num_tokens));
}

}  // namespace

DiskIndex::DiskIndex(DiskIndexOptions options)
    : options_(std::move(options)), folder_(folder_name(options_.fingerprint)), root_(root_key(options_.fingerprint)) {
  CHECK(options_.run_tokens > 0, "a run has tokens");
  CHECK(options_.runs_have_data || !options_.can_resume_anywhere, "what sees no token cannot be resumed anywhere");
}

void DiskIndex::add(StoredHead head, std::uint64_t bytes, FileTime used_at) {
  remove(head.key);
  head.parts.clear();
  const ContentKey key = head.key;
  const auto added = entries_.emplace(key, Entry{.head = std::move(head), .bytes = bytes, .used_at = used_at}).first;
  bytes_ += bytes;
  const Entry& entry = added->second;
  try {
    siblings_of(entry.head).insert(&entry);
    if (is_leaf(key)) leaves_.emplace(used_at, key);
  } catch (...) {
    erase(added);
    throw;
  }
  const auto parent = entries_.find(entry.head.parent);
  if (parent != entries_.end()) leaves_.erase({parent->second.used_at, parent->first});
}

void DiskIndex::remove(const ContentKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const ContentKey parent_key = found->second.head.parent;
  const auto parent = entries_.find(parent_key);
  const Children& siblings = children_of(parent_key);
  const bool is_only_child = siblings.runs.size() + siblings.snapshots.size() == 1;
  // First, since nothing else can fail.
  if (is_only_child && parent != entries_.end()) leaves_.emplace(parent->second.used_at, parent_key);
  erase(found);
}

/// All that is known of it; takes no memory.
void DiskIndex::erase(std::map<ContentKey, Entry>::iterator entry) {
  const auto& [key, value] = *entry;
  if (const auto found = children_.find(value.head.parent); found != children_.end()) {
    Children& siblings = found->second;
    (value.head.kind == StoredKind::kRun ? siblings.runs : siblings.snapshots).erase(&value);
    if (siblings.runs.empty() && siblings.snapshots.empty()) children_.erase(found);
  }
  leaves_.erase({value.used_at, key});
  touched_.erase(key);
  bytes_ -= value.bytes;
  entries_.erase(entry);
}

void DiskIndex::clear() {
  bytes_ = 0;
  children_.clear();
  leaves_.clear();
  touched_.clear();
  entries_.clear();
}

std::vector<DiskIndex::Known> DiskIndex::known() const {
  std::vector<Known> known;
  known.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) {
    known.push_back({.key = key, .kind = entry.head.kind, .bytes = entry.bytes, .used_at = entry.used_at});
  }
  return known;
}

bool DiskIndex::holds(StoredKind kind, const ContentKey& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.head.kind == kind;
}

bool DiskIndex::can_be_found(const ContentKey& parent) const {
  return !options_.runs_have_data || parent == root_ || holds(StoredKind::kRun, parent);
}

const DiskIndex::Children& DiskIndex::children_of(const ContentKey& key) const {
  static const Children none;
  const auto found = children_.find(key);
  return found == children_.end() ? none : found->second;
}

DiskIndex::SortedByTokens& DiskIndex::siblings_of(const StoredHead& head) {
  Children& children = children_[head.parent];
  return head.kind == StoredKind::kRun ? children.runs : children.snapshots;
}

DiskMatch DiskIndex::find(std::span<const TokenId> tokens, int most) const {
  most = std::clamp(most, 0, static_cast<int>(tokens.size()));
  return options_.can_resume_anywhere ? find_beginning(tokens, most) : find_snapshot(first(tokens, most));
}

/// Runs as long as they are the tokens', then what begins most alike.
DiskMatch DiskIndex::find_beginning(std::span<const TokenId> tokens, int most) const {
  DiskMatch match;
  ContentKey last = root_;
  int num_tokens = 0;  // of the runs
  while (num_tokens < most) {
    const auto rest = after(tokens, num_tokens);
    if (static_cast<int>(rest.size()) < options_.run_tokens) break;
    const ContentKey key = run_key(last, first(rest, options_.run_tokens));
    if (!holds(StoredKind::kRun, key)) break;
    match.runs.push_back(key);
    last = key;
    num_tokens += options_.run_tokens;
  }
  match.num_tokens = std::min(num_tokens, most);
  match.tokens.assign(tokens.begin(), tokens.begin() + num_tokens);
  if (num_tokens >= most) return match;

  const auto rest = after(tokens, num_tokens);
  const Children& children = children_of(last);
  const Entry* best = nullptr;
  int best_common = 0;
  for (const Entry* entry : {nearest(children.snapshots, rest), nearest(children.runs, rest)}) {
    const int common = entry == nullptr ? 0 : num_common(entry->head.tokens, rest);
    if (common <= best_common) continue;
    best = entry;
    best_common = common;
  }
  if (best == nullptr) return match;
  match.num_tokens = std::min(num_tokens + best_common, most);
  match.tokens.insert(match.tokens.end(), best->head.tokens.begin(), best->head.tokens.end());
  if (best->head.kind == StoredKind::kRun) {
    match.runs.push_back(best->head.key);
  } else {
    match.snapshot = best->head.key;
  }
  return match;
}

/// The longest snapshot that is of a beginning of the tokens, with all runs before it.
DiskMatch DiskIndex::find_snapshot(std::span<const TokenId> tokens) const {
  DiskMatch match;
  std::vector<ContentKey> runs;
  ContentKey last = root_;
  for (int num_tokens = 0;; num_tokens += options_.run_tokens) {
    const auto rest = after(tokens, num_tokens);
    if (const Entry* snapshot = longest_beginning(children_of(last).snapshots, rest)) {
      match.num_tokens = num_tokens + static_cast<int>(snapshot->head.tokens.size());
      match.snapshot = snapshot->head.key;
      match.runs.insert(match.runs.end(), runs.begin() + static_cast<std::ptrdiff_t>(match.runs.size()), runs.end());
    }
    if (static_cast<int>(rest.size()) < options_.run_tokens) break;
    last = run_key(last, first(rest, options_.run_tokens));
    if (!can_be_found(last)) break;
    if (options_.runs_have_data) runs.push_back(last);
  }
  if (match.num_tokens == 0) return {};
  match.tokens.assign(tokens.begin(), tokens.begin() + match.num_tokens);
  return match;
}

/// Which of them has the most tokens at its beginning in common with these: in the order of dictionaries it stands
/// beside the place where these would be.
const DiskIndex::Entry* DiskIndex::nearest(const SortedByTokens& entries, std::span<const TokenId> tokens) {
  const auto next = entries.lower_bound(tokens);
  if (entries.empty()) return nullptr;
  if (next == entries.end()) return *std::prev(next);
  if (next == entries.begin()) return *next;
  const Entry* before = *std::prev(next);
  return num_common(before->head.tokens, tokens) > num_common((*next)->head.tokens, tokens) ? before : *next;
}

/// The longest of them that these tokens begin with.
const DiskIndex::Entry* DiskIndex::longest_beginning(const SortedByTokens& entries, std::span<const TokenId> tokens) {
  for (;;) {
    const auto next = entries.upper_bound(tokens);
    if (next == entries.begin()) return nullptr;
    const Entry* entry = *std::prev(next);
    const int common = num_common(entry->head.tokens, tokens);
    if (common == static_cast<int>(entry->head.tokens.size())) return entry;
    tokens = first(tokens, common);  // no longer one has more in common with them
  }
}

void DiskIndex::touch(const ContentKey& key, FileTime now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  last_use_ = std::max(now, last_use_ + 1);
  set_used_at(found->second, std::max(last_use_, found->second.used_at + 1));  // which another machine's clock may say
  touched_.insert(key);
}

/// Takes no memory.
void DiskIndex::set_used_at(Entry& entry, FileTime used_at) {
  auto leaf = leaves_.extract({entry.used_at, entry.head.key});
  entry.used_at = used_at;
  if (!leaf) return;
  leaf.value() = {used_at, entry.head.key};
  leaves_.insert(std::move(leaf));
}

void DiskIndex::touch_elsewhere(const ContentKey& key, FileTime used_at) {
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.used_at < used_at) set_used_at(found->second, used_at);
}

void DiskIndex::touch(const DiskMatch& match, FileTime now) {
  if (match.snapshot) touch(*match.snapshot, now);
  for (const ContentKey& run : std::views::reverse(match.runs)) touch(run, now);
}

void DiskIndex::touch_chain(const ContentKey& key, FileTime now) {
  for (auto at = entries_.find(key); at != entries_.end(); at = entries_.find(at->second.head.parent)) {
    touch(at->first, now);
  }
}

std::vector<DiskIndex::Use> DiskIndex::take_uses(std::size_t most) {
  std::vector<Use> uses;
  while (!touched_.empty() && uses.size() < most) {
    const Entry& entry = entries_.at(*touched_.begin());
    uses.push_back({.kind = entry.head.kind, .key = entry.head.key, .used_at = entry.used_at});
    touched_.erase(touched_.begin());
  }
  return uses;
}

std::optional<DiskFile> DiskIndex::take_oldest(const ContentKey& kept) {
  auto leaf = leaves_.begin();
  if (leaf != leaves_.end() && leaf->second == kept) ++leaf;
  const std::optional<FileTime> foreign = foreign_.oldest_use();
  if (foreign && (leaf == leaves_.end() || *foreign < leaf->first)) return foreign_.take_oldest();
  if (leaf == leaves_.end()) return std::nullopt;
  const ContentKey key = leaf->second;
  const Entry& entry = entries_.at(key);
  DiskFile file{.folder = folder_, .name = file_name(entry.head.kind, key), .bytes = entry.bytes};
  remove(key);
  return file;
}

}  // namespace redpoll::cache
