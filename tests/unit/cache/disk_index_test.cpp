// The books of the disk tier against naive ones, and the order in which files are given up.
#include "cache/disk_index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "unit/cache/disk_fixture.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::cache {
namespace {

/// What a model's layers demand.
struct Demands {
  bool runs_have_data;
  bool can_resume_anywhere;

  friend std::ostream& operator<<(std::ostream& out, const Demands& demands) {
    return out << (demands.runs_have_data ? "runs" : "no runs") << (demands.can_resume_anywhere ? ", anywhere" : "");
  }
};

DiskIndexOptions options_for(const Demands& demands) {
  return {.fingerprint = kFingerprint,
          .run_tokens = kRunTokens,
          .runs_have_data = demands.runs_have_data,
          .can_resume_anywhere = demands.can_resume_anywhere};
}

/// All texts of which something is there, each with what is needed to restore it, looked through one by one.
class NaiveIndex {
 public:
  explicit NaiveIndex(Demands demands) : demands_(demands) {}

  void add(const Tokens& text, StoredKind kind) { texts_.push_back({.tokens = text, .kind = kind}); }
  void remove(const Tokens& text, StoredKind kind) {
    std::erase_if(texts_, [&](const Text& other) { return other.tokens == text && other.kind == kind; });
  }

  [[nodiscard]] int find(const Tokens& tokens, int most) const {
    int best = 0;
    for (const Text& text : texts_) {
      if (!has_runs_before(text)) continue;
      const auto common = static_cast<int>(std::ranges::mismatch(text.tokens, tokens).in1 - text.tokens.begin());
      if (demands_.can_resume_anywhere) {
        best = std::max(best, std::min(common, most));
      } else if (text.kind == StoredKind::kSnapshot && common == static_cast<int>(text.tokens.size()) &&
                 common <= most) {
        best = std::max(best, common);
      }
    }
    return best;
  }

 private:
  struct Text {
    Tokens tokens;  // from the start
    StoredKind kind;
  };

  [[nodiscard]] bool has_runs_before(const Text& text) const {
    if (!demands_.runs_have_data) return true;
    std::size_t size = text.tokens.size() / kRunTokens * kRunTokens;
    if (text.kind == StoredKind::kRun) size -= kRunTokens;
    for (; size > 0; size -= kRunTokens) {
      const bool is_there = std::ranges::any_of(texts_, [&](const Text& other) {
        return other.kind == StoredKind::kRun && std::ranges::equal(other.tokens, std::span(text.tokens).first(size));
      });
      if (!is_there) return false;
    }
    return true;
  }

  Demands demands_;
  std::vector<Text> texts_;
};

/// That the match's files are there, build on each other, and are of the tokens that it names.
void check_match(const DiskIndex& index, const DiskMatch& match, const Tokens& tokens, const Demands& demands) {
  ASSERT_GE(match.tokens.size(), static_cast<std::size_t>(match.num_tokens));
  ASSERT_TRUE(std::ranges::equal(std::span(match.tokens).first(static_cast<std::size_t>(match.num_tokens)),
                                 std::span(tokens).first(static_cast<std::size_t>(match.num_tokens))));
  if (match.num_tokens == 0) {
    ASSERT_TRUE(match.tokens.empty() && match.runs.empty() && !match.snapshot);
    return;
  }
  if (!demands.can_resume_anywhere) {
    ASSERT_TRUE(match.snapshot);
    ASSERT_EQ(match.tokens.size(), static_cast<std::size_t>(match.num_tokens));
  }
  const std::vector<StoredHead> heads = heads_of(match.tokens);
  std::vector<ContentKey> runs;
  for (const StoredHead& head : heads) {
    if (head.kind == StoredKind::kRun && demands.runs_have_data) runs.push_back(head.key);
  }
  ASSERT_EQ(match.runs, runs);
  for (const ContentKey& run : runs) ASSERT_TRUE(index.holds(StoredKind::kRun, run));
  if (match.snapshot) {
    ASSERT_EQ(*match.snapshot, heads.back().key);
    ASSERT_TRUE(index.holds(StoredKind::kSnapshot, *match.snapshot));
  } else {
    ASSERT_TRUE(heads.back().tokens.empty());
  }
  // No file without which as many tokens could be had.
  const std::size_t last_tokens = match.snapshot ? heads.back().tokens.size() : kRunTokens;
  ASSERT_TRUE(!demands.can_resume_anywhere ||
              match.tokens.size() - last_tokens < static_cast<std::size_t>(match.num_tokens));
}

class DiskIndexOracleTest : public testing::TestWithParam<Demands> {};
INSTANTIATE_TEST_SUITE_P(Layers, DiskIndexOracleTest,
                         testing::Values(Demands{.runs_have_data = true, .can_resume_anywhere = true},
                                         Demands{.runs_have_data = true, .can_resume_anywhere = false},
                                         Demands{.runs_have_data = false, .can_resume_anywhere = false}));

TEST_P(DiskIndexOracleTest, FindsWhatLookingAtEveryFileFinds) {
  DiskIndex index(options_for(GetParam()));
  NaiveIndex naive(GetParam());
  std::mt19937 random(11);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  std::vector<Tokens> seen = {{}};
  int num_found = 0;
  for (int i = 0; i < 6'000; ++i) {
    // Mostly the beginning of something that was there before, and then a few tokens of an alphabet of two.
    Tokens tokens = seen[below(seen.size())];
    tokens.resize(below(tokens.size() + 1));
    for (std::size_t more = below(14); more > 0; --more) tokens.push_back(static_cast<TokenId>(below(2)));
    const int most = static_cast<int>(below(3) == 0 ? below(tokens.size() + 1) : tokens.size());
    const DiskMatch match = index.find(tokens, most);
    ASSERT_EQ(match.num_tokens, naive.find(tokens, most)) << "operation " << i;
    ASSERT_NO_FATAL_FAILURE(check_match(index, match, tokens, GetParam())) << "operation " << i;
    num_found += match.num_tokens > 0 ? 1 : 0;
    if (below(4) != 0) continue;
    // Some of the text's files come, or go wherever they stand in the chain.
    seen.push_back(tokens);
    for (const StoredHead& head : heads_of(tokens)) {
      if (head.kind == StoredKind::kRun && !GetParam().runs_have_data) continue;
      const auto size = static_cast<std::size_t>(head.first_token) + head.tokens.size();
      const Tokens text(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size));
      naive.remove(text, head.kind);
      if (below(10) < 7) {
        naive.add(text, head.kind);
        index.add(head, 100, i);
      } else {
        index.remove(head.key);
      }
    }
    if (seen.size() > 40) {
      ASSERT_EQ(index.bytes(), 100U * static_cast<unsigned>(index.num_entries()));
      index.clear();
      naive = NaiveIndex(GetParam());
      seen = {{}};
      ASSERT_EQ(index.bytes(), 0U);
    }
  }
  EXPECT_GT(num_found, 1'500);
  EXPECT_LT(num_found, 5'900);
}

class DiskIndexTest : public testing::Test {
 protected:
  void add(const Tokens& tokens, FileTime used_at) {
    for (const StoredHead& head : heads_of(tokens)) index_.add(head, 10, used_at++);
  }
  std::vector<std::string> take_all(const ContentKey& kept = {}) {
    std::vector<std::string> names;
    while (const auto file = index_.take_oldest(kept)) names.push_back(file->name);
    return names;
  }
  static std::string name(const StoredHead& head) { return file_name(head.kind, head.key); }

  DiskIndex index_{options_for({.runs_have_data = true, .can_resume_anywhere = true})};
};

TEST_F(DiskIndexTest, WhatIsOldestGoesFirst) {
  const auto first = heads_of({1, 1});
  const auto second = heads_of({2, 2});
  const auto third = heads_of({3, 3});
  add({1, 1}, 10);
  add({2, 2}, 20);
  add({3, 3}, 30);
  EXPECT_EQ(index_.bytes(), 30U);
  index_.touch(index_.find(Tokens{1, 1}, 2), 40);
  EXPECT_THAT(take_all(), testing::ElementsAre(name(second[0]), name(third[0]), name(first[0])));
  EXPECT_EQ(index_.bytes(), 0U);
  EXPECT_EQ(index_.num_entries(), 0);
}

TEST_F(DiskIndexTest, WhatOthersBuildOnGoesAfterThem) {
  const auto heads = heads_of({1, 1, 1, 1, 2, 2, 2, 2, 3});
  const auto fork = heads_of({1, 1, 1, 1, 5});
  add({1, 1, 1, 1, 2, 2, 2, 2, 3}, 10);  // the first run is the oldest of all
  index_.add(fork.back(), 10, 50);
  EXPECT_THAT(take_all(), testing::ElementsAre(name(heads[2]), name(heads[1]), name(fork.back()), name(heads[0])));
}

TEST_F(DiskIndexTest, WhatIsKeptDoesNotGo) {
  const auto heads = heads_of({1, 1, 1, 1, 2});
  add({1, 1, 1, 1, 2}, 10);
  EXPECT_THAT(take_all(heads[0].key), testing::ElementsAre(name(heads[1])));
  EXPECT_TRUE(index_.holds(StoredKind::kRun, heads[0].key));
}

TEST_F(DiskIndexTest, FilesOfOthersGoByAgeToo) {
  add({1}, 20);
  ForeignFiles foreign;
  foreign.add({.folder = "0123456789abcdef", .name = "old", .bytes = 7}, 10);
  foreign.add({.folder = "0123456789abcdef", .name = "new", .bytes = 5}, 30);
  index_.swap_foreign(foreign);
  EXPECT_EQ(index_.bytes(), 22U);
  EXPECT_EQ(index_.num_entries(), 1);
  EXPECT_THAT(take_all(), testing::ElementsAre("old", name(heads_of({1})[0]), "new"));
  EXPECT_EQ(index_.bytes(), 0U);
}

TEST_F(DiskIndexTest, ClearingLeavesTheFilesOfOthers) {
  add({1}, 20);
  ForeignFiles foreign;
  foreign.add({.folder = "0123456789abcdef", .name = "theirs", .bytes = 7}, 10);
  index_.swap_foreign(foreign);
  index_.clear();
  EXPECT_EQ(index_.bytes(), 7U);
  EXPECT_EQ(index_.num_entries(), 0);
  EXPECT_EQ(index_.find(Tokens{1}, 1).num_tokens, 0);
}

TEST_F(DiskIndexTest, UsesAscendToTheFirstRun) {
  const auto heads = heads_of({1, 1, 1, 1, 2, 2, 2, 2, 3});
  add({1, 1, 1, 1, 2, 2, 2, 2, 3}, 10);
  EXPECT_FALSE(index_.has_uses());
  index_.touch(index_.find(Tokens{1, 1, 1, 1, 2, 2, 2, 2, 3}, 9), 5);  // a clock that was set back changes nothing
  index_.touch_chain(heads[1].key, 5);
  EXPECT_EQ(index_.take_uses(2).size(), 2U);
  EXPECT_TRUE(index_.has_uses());
  index_.touch_chain(heads[2].key, 100);
  auto uses = index_.take_uses(100);
  ASSERT_EQ(uses.size(), 3U);  // each once, however often it was used
  std::ranges::sort(uses, {}, &DiskIndex::Use::used_at);
  EXPECT_EQ(uses[0].key, heads[2].key);
  EXPECT_EQ(uses[0].used_at, 100);
  EXPECT_EQ(uses[1].key, heads[1].key);
  EXPECT_EQ(uses[2].key, heads[0].key);
  EXPECT_EQ(uses[2].used_at, 102);
  EXPECT_FALSE(index_.has_uses());
}

TEST_F(DiskIndexTest, WhatOthersUseStaysToo) {
  for (const TokenId token : {1, 2, 3}) add({token}, token);
  index_.touch_elsewhere(heads_of({1})[0].key, 50);
  index_.touch_elsewhere(heads_of({2})[0].key, 1);  // which is no news
  index_.touch_elsewhere(heads_of({9})[0].key, 60);
  EXPECT_FALSE(index_.has_uses()) << "they have said so themselves";
  EXPECT_THAT(take_all(), testing::ElementsAre(name(heads_of({2})[0]), name(heads_of({3})[0]), name(heads_of({1})[0])));
}

TEST_F(DiskIndexTest, WhatIsKnownComesByKeys) {
  const auto heads = heads_of({1, 1, 1, 1, 2});
  index_.add(heads[0], 100, 20);
  index_.add(heads[1], 101, 21);
  auto known = index_.known();
  ASSERT_EQ(known.size(), 2U);
  EXPECT_LT(known[0].key, known[1].key);
  std::ranges::sort(known, {}, &DiskIndex::Known::kind);  // runs first
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(known[i].key, heads[i].key);
    EXPECT_EQ(known[i].kind, heads[i].kind);
    EXPECT_EQ(known[i].bytes, 100 + i);
    EXPECT_EQ(known[i].used_at, 20 + static_cast<FileTime>(i));
  }
}

TEST_F(DiskIndexTest, ABeginningOfTheLastFileIsOfUseAlone) {
  add({1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5}, 10);
  const DiskMatch match = index_.find(Tokens{1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 9}, 11);
  EXPECT_EQ(match.num_tokens, 10);
  EXPECT_THAT(match.tokens, testing::ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5));
  EXPECT_EQ(match.runs.size(), 2U);
  EXPECT_TRUE(match.snapshot);
  const DiskMatch in_run = index_.find(Tokens{1, 1, 1, 1, 2, 2, 7}, 7);
  EXPECT_EQ(in_run.num_tokens, 6);
  EXPECT_EQ(in_run.tokens.size(), 8U);
  EXPECT_FALSE(in_run.snapshot);
  EXPECT_EQ(index_.find(Tokens{1, 1, 1, 1, 2}, 4).runs.size(), 1U);
  EXPECT_EQ(index_.find(Tokens{8}, 1).num_tokens, 0);
  EXPECT_EQ(index_.find({}, 5).num_tokens, 0);
}

// Each allocation fails once. What is in the books afterwards can be given up, to the last byte.
TEST(DiskIndexMemoryTest, NoMemoryLeavesTheBooksInOrder) {
  const auto heads = heads_of({1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5});
  const auto lonely = heads_of({9}).front();
  const auto try_to = [](const auto& change) {
    try {
      change();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  bool all_done = false;
  for (int n = 1; !all_done; ++n) {
    DiskIndex index({.fingerprint = kFingerprint, .run_tokens = kRunTokens});
    test::allocations().until_failure = n;
    all_done = true;
    for (const StoredHead& head : heads) all_done &= try_to([&] { index.add(head, 100, 1); });
    all_done &= try_to([&] { index.add(lonely, 100, 1); });
    for (const StoredHead& head : heads) all_done &= try_to([&] { index.touch_chain(head.key, 2); });
    ForeignFiles foreign;
    all_done &= try_to([&] { foreign.add({.folder = "b", .name = "a long name, not in place", .bytes = 7}, 5); });
    index.swap_foreign(foreign);
    all_done &= try_to([&] { index.remove(heads[2].key); });
    all_done &= try_to([&] { index.remove(heads[1].key); });
    test::allocations().until_failure = 0;
    ASSERT_LT(n, 500);
    while (index.take_oldest({})) continue;
    EXPECT_EQ(index.bytes(), 0U) << n;
    EXPECT_EQ(index.num_entries(), 0) << n;
    EXPECT_TRUE(try_to([&] { index.add(heads[0], 100, 3); }));
    EXPECT_EQ(index.bytes(), 100U) << n;
  }
}

}  // namespace
}  // namespace redpoll::cache
