// The prompt cache against a naive one that looks at every entry: random operations under a limit that is always
// reached, in pools that run out.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "cache/prompt_cache.h"

namespace redpoll::cache {
namespace {

constexpr int kBlockTokens = 4;
constexpr int kNumBlocks = 40;
constexpr std::size_t kMaxBytes = 2'400;
const std::vector<std::size_t> kBytesPerBlock = {100, 30};

using Tokens = std::vector<TokenId>;

/// Looks at every entry for whatever it is asked.
class NaivePromptCache {
 public:
  struct Entry {
    SequenceCache cache;
    int used_at = 0;
    bool is_written = false;
    std::vector<std::size_t> needless;  // lengths of beginnings, where there is no going back from everywhere
  };
  struct Match {
    Entry* entry = nullptr;
    int num_tokens = 0;
  };

  static int num_common(const Tokens& one, const Tokens& other) {
    return static_cast<int>(std::ranges::mismatch(one, other).in1 - one.begin());
  }
  [[nodiscard]] int num_common(const Tokens& tokens) const {
    int most = 0;
    for (const auto& [own, entry] : entries) most = std::max(most, num_common(own, tokens));
    return most;
  }
  /// The entry that can be resumed at most tokens. Of several the one that has most in common, and of those the first.
  [[nodiscard]] Match best(const Tokens& tokens, int most) {
    Match best;
    int best_common = 0;
    for (auto& [own, entry] : entries) {
      const int common = num_common(own, tokens);
      const int wanted = std::min(common, most);
      if (wanted == 0 || !entry.cache.can_resume_at(wanted)) continue;
      if (std::pair(wanted, common) <= std::pair(best.num_tokens, best_common)) continue;
      best = {.entry = &entry, .num_tokens = wanted};
      best_common = common;
    }
    return best;
  }
  Match use(const Tokens& tokens, int most) {
    const Match match = best(tokens, most);
    if (match.entry != nullptr) match.entry->used_at = ++clock_;
    return match;
  }
  std::optional<SequenceCache::Fork> take(const Tokens& tokens, int most) {
    const Match match = best(tokens, most);
    std::optional<SequenceCache::Fork> fork;
    if (match.entry != nullptr) fork = match.entry->cache.fork(match.num_tokens);
    if (fork) match.entry->used_at = ++clock_;
    if (fork) stats.hit_tokens += static_cast<std::size_t>(match.num_tokens);
    ++(fork ? stats.hits : stats.misses);
    return fork;
  }
  void insert(const Tokens& tokens, SequenceCache cache) {
    const int num_tokens = static_cast<int>(tokens.size());
    Holders own;
    count_holders(own, cache);
    if (num_tokens == 0 || bytes_of(own) > kMaxBytes) return;
    if (best(tokens, num_tokens).num_tokens == num_tokens) {
      (void)use(tokens, num_tokens);
      return;
    }
    std::vector<std::size_t> needless;
    for (std::size_t length = tokens.size() - 1; length > 0; --length) {
      const auto beginning = entries.find(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length)));
      if (beginning == entries.end() || !cache.can_resume_at(static_cast<int>(length))) continue;
      needless.push_back(length);
      needless.insert(needless.end(), beginning->second.needless.begin(), beginning->second.needless.end());
      entries.erase(beginning);
    }
    if (cache.num_groups() == 1 && cache.kind(0) == CacheKind::kAttention) needless.clear();
    entries.emplace(tokens, Entry{.cache = std::move(cache), .used_at = ++clock_, .needless = std::move(needless)});
    inserted.push_back(tokens);
    while (bytes_of(holders()) > kMaxBytes) evict();
  }
  bool evict() {
    if (entries.empty()) return false;
    const auto oldest = std::ranges::min_element(entries, {}, [](const auto& entry) { return entry.second.used_at; });
    const Tokens& tokens = oldest->first;
    if (oldest->second.is_written) evicted.push_back(tokens);
    for (const std::size_t length : oldest->second.needless) {
      if (!oldest->second.is_written || !oldest->second.cache.can_resume_at(static_cast<int>(length))) continue;
      evicted.emplace_back(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
    }
    gone_.push_back(oldest->first);
    if (gone_.size() > 128) gone_.pop_front();
    entries.erase(oldest);
    return true;
  }
  PromptCache::Beginning look_at(const Tokens& tokens, int most) {
    PromptCache::Beginning beginning{.num_resumable = best(tokens, most).num_tokens, .num_common = num_common(tokens)};
    const auto common = static_cast<std::size_t>(beginning.num_common);
    for (const auto& [own, entry] : entries) {
      if (beginning.next || num_common(own, tokens) < beginning.num_common || own.size() == common) continue;
      beginning.next = own[common];
    }
    for (const Tokens& gone : gone_) {
      beginning.num_evicted = std::max(beginning.num_evicted, num_common(gone, tokens) / 32 * 32);
    }
    return beginning;
  }

  using Holders = std::vector<std::map<BlockId, int>>;  // by group and block: entries
  static void count_holders(Holders& holders, const SequenceCache& cache) {
    holders.resize(kBytesPerBlock.size());
    for (int group = 0; group < cache.num_groups(); ++group) {
      for (const BlockId block : cache.table(group)) {
        if (block != kNoBlock) ++holders[static_cast<std::size_t>(group)][block];
      }
    }
  }
  [[nodiscard]] Holders holders() const {
    Holders holders(kBytesPerBlock.size());
    for (const auto& [own, entry] : entries) count_holders(holders, entry.cache);
    return holders;
  }
  [[nodiscard]] static std::size_t bytes_of(const Holders& holders) {
    std::size_t bytes = 0;
    for (std::size_t group = 0; group < holders.size(); ++group) bytes += holders[group].size() * kBytesPerBlock[group];
    return bytes;
  }

  std::map<Tokens, Entry> entries;
  PromptCacheStats stats;
  std::vector<Tokens> inserted, evicted;

 private:
  int clock_ = 0;
  std::deque<Tokens> gone_;
};

class Recorder final : public PromptCacheObserver {
 public:
  void on_insert(std::span<const TokenId> tokens) override { inserted.emplace_back(tokens.begin(), tokens.end()); }
  void on_evict(std::span<const TokenId> tokens, const SequenceCache& cache) override {
    EXPECT_TRUE(cache.can_resume_at(static_cast<int>(tokens.size())));
    evicted.emplace_back(tokens.begin(), tokens.end());
  }
  bool give_up() override { return false; }
  void on_distrust() override {}

  std::vector<Tokens> inserted, evicted;
};

/// Does the same to the cache and to the naive one. Each has pools of its own, in which the same blocks are used: where
/// they run out, they do so for both.
class PromptCacheOracleTest : public testing::TestWithParam<std::vector<GroupPool>> {
 protected:
  /// A sequence, with its tables in the pools of either.
  struct Twin {
    SequenceCache own, naive;
  };

  PromptCacheOracleTest() { cache_.set_observer(&recorder_); }

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  /// Mostly the beginning of something that was there before, and then a few tokens of an alphabet of three.
  Tokens pick_tokens() {
    Tokens tokens = seen_[static_cast<std::size_t>(below(static_cast<int>(seen_.size())))];
    if (below(3) == 0) tokens.resize(static_cast<std::size_t>(below(static_cast<int>(tokens.size()) + 1)));
    for (int more = below(12); more > 0; --more) tokens.push_back(below(3));
    return tokens;
  }

  bool evict() {
    const bool is_evicted = naive_.evict();
    EXPECT_EQ(cache_.evict(), is_evicted);
    return is_evicted;
  }
  /// False when there is no room even without entries.
  bool compute(Twin& twin, int num_tokens) {
    while (twin.own.num_computed() < num_tokens) {
      const int step = std::min(7, num_tokens - twin.own.num_computed());
      const int end = twin.own.num_computed() + step;
      while (!twin.own.ensure_capacity(end)) {
        EXPECT_FALSE(twin.naive.ensure_capacity(end));
        if (!evict()) return false;
      }
      EXPECT_TRUE(twin.naive.ensure_capacity(end));
      twin.own.advance(step);
      twin.naive.advance(step);
    }
    return true;
  }
  /// From what there is of the tokens, or from nothing; what has been computed is kept by the cache or still runs.
  void go_on(const Tokens& tokens, int most) {
    auto own = cache_.take(tokens, most);
    auto naive = naive_.take(tokens, most);
    ASSERT_EQ(own.has_value(), naive.has_value());
    Twin twin{.own = SequenceCache(pools_), .naive = SequenceCache(naive_pools_)};
    if (own) {
      ASSERT_EQ(own->cache.num_computed(), naive->cache.num_computed());
      ASSERT_EQ(own->copies.size(), naive->copies.size());
      twin = {.own = std::move(own->cache), .naive = std::move(naive->cache)};
    }
    if (!compute(twin, static_cast<int>(tokens.size()))) {
      ++num_without_room_;
      return;
    }
    if (below(3) == 0) {
      running_.emplace_back(tokens, std::move(twin));
      return;
    }
    cache_.insert(tokens, std::move(twin.own));
    naive_.insert(tokens, std::move(twin.naive));
    seen_.push_back(tokens);
  }
  void end_one_running() {
    if (running_.empty()) return;
    auto [tokens, twin] = std::move(running_.front());
    running_.pop_front();
    if (below(2) == 0) return;
    cache_.insert(tokens, std::move(twin.own));
    naive_.insert(tokens, std::move(twin.naive));
  }
  void settle() {
    cache_.settle();
    for (auto& [tokens, entry] : naive_.entries) entry.is_written = true;
  }
  void clear() {
    running_.clear();
    cache_.clear();
    naive_.entries.clear();
    seen_ = {{}};
    ASSERT_EQ(pools_.num_used(), 0);
  }

  void ask(const Tokens& tokens, int most) {
    const PromptCache::Beginning got = cache_.look_at(tokens, most);
    const PromptCache::Beginning want = naive_.look_at(tokens, most);
    ASSERT_EQ(got.num_resumable, want.num_resumable);
    ASSERT_EQ(got.num_common, want.num_common);
    ASSERT_EQ(got.next, want.next);
    ASSERT_EQ(got.num_evicted, want.num_evicted);
    num_remembered_ += got.num_evicted > 0 ? 1 : 0;
    ASSERT_EQ(cache_.num_common(tokens), want.num_common);
    const PromptCache::Lender lender = cache_.longest(tokens);
    ASSERT_EQ(lender.num_tokens, want.num_common);
    ASSERT_EQ(lender.cache != nullptr, want.num_common > 0);
    ASSERT_TRUE(lender.cache == nullptr || std::ranges::any_of(naive_.entries, [&](const auto& entry) {
                  return NaivePromptCache::num_common(entry.first, tokens) == want.num_common &&
                         entry.second.cache.num_computed() == lender.cache->num_computed();
                }));
    const auto known = naive_.best(tokens, static_cast<int>(tokens.size()));
    const SequenceCache* entry = cache_.entry_of(tokens);
    ASSERT_EQ(entry != nullptr, known.entry != nullptr && known.num_tokens == static_cast<int>(tokens.size()));
    ASSERT_TRUE(entry == nullptr || entry->num_computed() == known.entry->cache.num_computed());
  }
  void find(const Tokens& tokens, int most) {
    const auto match = naive_.use(tokens, most);
    if (below(2) == 0) {
      ASSERT_EQ(cache_.find(tokens, most), match.num_tokens);
    } else {
      const int group = below(pools_.num_groups());
      const int num_shared = match.entry == nullptr ? 0 : match.entry->cache.num_shared(group, match.num_tokens);
      ASSERT_EQ(cache_.num_shared(group, tokens, most), num_shared);
    }
  }

  void do_something() {
    const Tokens tokens = pick_tokens();
    const int num_tokens = static_cast<int>(tokens.size());
    const int most = below(3) == 0 ? below(num_tokens + 1) : num_tokens;
    switch (below(12)) {
      case 0: return settle();
      case 1: return void(evict());
      case 2:
      case 3: return end_one_running();
      case 4: return find(tokens, most);
      case 5:
      case 6: return ask(tokens, most);
      default: return seen_.size() > 60 ? clear() : go_on(tokens, most);
    }
  }

  void expect_same_books() {
    const NaivePromptCache::Holders want = naive_.holders();
    const PromptCacheStats stats = cache_.stats();
    ASSERT_EQ(stats.entries, static_cast<int>(naive_.entries.size()));
    ASSERT_EQ(stats.bytes, naive_.bytes_of(want));
    ASSERT_LE(stats.bytes, kMaxBytes);
    ASSERT_EQ(std::tie(stats.hits, stats.misses, stats.hit_tokens),
              std::tie(naive_.stats.hits, naive_.stats.misses, naive_.stats.hit_tokens));
    for (int group = 0; group < pools_.num_groups(); ++group) {
      ASSERT_EQ(pools_.pool(group).num_used(), naive_pools_.pool(group).num_used());
      const auto& held = want[static_cast<std::size_t>(group)];
      for (BlockId block = 0; block < kNumBlocks; ++block) {
        ASSERT_EQ(cache_.num_holders(group, block), held.contains(block) ? held.at(block) : 0);
      }
    }
    ASSERT_EQ(std::exchange(recorder_.inserted, {}), std::exchange(naive_.inserted, {}));
    ASSERT_EQ(recorder_.evicted, std::exchange(naive_.evicted, {}));
    num_evicted_ += std::exchange(recorder_.evicted, {}).size();
    const Status integrity = cache_.check_integrity();
    ASSERT_TRUE(integrity) << integrity.error().message;
  }

  CachePools pools_{kBlockTokens, GetParam()}, naive_pools_{kBlockTokens, GetParam()};
  Recorder recorder_;
  PromptCache cache_{pools_, {kBytesPerBlock.begin(), kBytesPerBlock.begin() + pools_.num_groups()}, kMaxBytes};
  NaivePromptCache naive_;
  std::mt19937 random_{7};
  std::vector<Tokens> seen_ = {{}};
  std::deque<std::pair<Tokens, Twin>> running_;
  std::size_t num_evicted_ = 0;  // of what was written
  int num_remembered_ = 0;       // times that something evicted was
  int num_without_room_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Groups, PromptCacheOracleTest,
    testing::Values(std::vector<GroupPool>{{.num_blocks = kNumBlocks}},
                    std::vector<GroupPool>{{.num_blocks = kNumBlocks}, {.window = 10, .num_blocks = kNumBlocks}},
                    std::vector<GroupPool>{{.num_blocks = kNumBlocks},
                                           {.kind = CacheKind::kRecurrent, .num_blocks = kNumBlocks}}));

TEST_P(PromptCacheOracleTest, DoesWhatLookingAtEveryEntryDoes) {
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(do_something()) << "operation " << i;
    ASSERT_NO_FATAL_FAILURE(expect_same_books()) << "operation " << i;
  }
  EXPECT_GT(cache_.stats().hits, 1'000U);
  EXPECT_GT(cache_.stats().misses, 100U);
  EXPECT_GT(num_evicted_, 200U);
  EXPECT_GT(num_remembered_, 10);
  EXPECT_GT(num_without_room_, 10);
}

}  // namespace
}  // namespace redpoll::cache
