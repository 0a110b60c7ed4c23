// A process that is killed while it writes files, or reads them, leaves nothing behind that hurts the next one.
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX's
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <random>

#include "base/descriptor.h"
#include "base/log.h"
#include "unit/cache/disk_tier_fixture.h"

namespace redpoll::cache {
namespace {

constexpr int kKills = 200;
constexpr int kKillsPerFolder = 20;
constexpr std::size_t kLargePayload = 200'000;

/// Four runs and a snapshot, others for each number.
Tokens text_of_number(int number) {
  Tokens text;
  for (int i = 0; i < 4 * kRunTokens + 1; ++i) text.push_back(number * 100 + i);
  return text;
}

std::vector<StoredHead> heads_of_number(int number) { return heads_of(text_of_number(number)); }

struct Written {
  Tokens tokens;
  std::vector<StoredHead> heads;
  std::vector<Payload> payloads;  // of each
};

/// Ends a child that has found something wrong, as no signal does.
void expect_in_child(bool is_so) {
  if (!is_so) std::_Exit(1);
}

void report(int out, int number) { expect_in_child(::write(out, &number, sizeof number) == sizeof number); }

class DiskTierKillTest : public DiskTierFixture {
 protected:
  DiskTierKillTest() { configure_log({.level = LogLevel::kOff}); }  // hundreds of half-written files
  ~DiskTierKillTest() override { configure_log({}); }

  /// Writes texts from `number` on, and their numbers to `out` once they are on disk, until somebody ends it.
  [[noreturn]] void write_for_ever(int number, int out) const {
    const auto tier = open();
    for (;; ++number) {
      for (const StoredHead& head : heads_of_number(number)) {
        expect_in_child(tier->write(head, payload_of(head, kLargePayload)));
      }
      expect_in_child(flush(*tier));
      report(out, number);
    }
  }

  /// Finds and reads the texts in any order, says that they are used, and reports each once it has been compared with
  /// what was written, until somebody ends it.
  [[noreturn]] void read_for_ever(const std::vector<Written>& texts, unsigned seed, int out) const {
    const auto tier = open();
    std::mt19937 random(seed);
    while (true) {
      const auto number = static_cast<int>(random() % texts.size());
      const Written& text = texts[static_cast<std::size_t>(number)];
      const auto match = tier->find(text.tokens, static_cast<int>(text.tokens.size()));
      expect_in_child(match.num_tokens == static_cast<int>(text.tokens.size()));
      tier->touch(match);
      for (std::size_t i = 0; i < text.heads.size(); ++i) {
        const auto file = read(*tier, text.heads[i].kind, text.heads[i].key);
        expect_in_child(file && file->head == text.heads[i] && file->payload == text.payloads[i]);
      }
      report(out, number);
    }
  }

  /// Kills a child that does what `body` does some time after it has reported so many texts; returns the numbers of all
  /// that it has reported.
  [[nodiscard]] static std::vector<int> run_until_killed(const auto& body, std::size_t num_texts,
                                                         std::chrono::microseconds delay) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const Descriptor in(pipe[0]);
    Descriptor out(pipe[1]);
    const pid_t child = ::fork();
    if (child == 0) body(out.get());
    out = Descriptor();
    std::vector<int> reported;
    const auto read_report = [&] {
      int done = 0;
      if (::read(in.get(), &done, sizeof done) != sizeof done) return false;
      reported.push_back(done);
      return true;
    };
    while (reported.size() < num_texts && read_report()) {
    }
    std::this_thread::sleep_for(delay);
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    while (read_report()) {
    }
    return reported;
  }

  [[nodiscard]] int num_unfinished() const {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.directory)) {
      count += entry.path().extension() == ".tmp" ? 1 : 0;
    }
    return count;
  }

  static void expect_held(const DiskTier& tier, const std::vector<int>& reported) {
    for (const int number : reported) {
      for (const StoredHead& head : heads_of_number(number)) ASSERT_TRUE(tier.holds(head.kind, head.key)) << number;
    }
  }

  /// Everything that is found is right.
  static void expect_right(DiskTier& tier, int num_texts) {
    int num_held = 0;
    for (int number = 0; number < num_texts; ++number) {
      for (const StoredHead& head : heads_of_number(number)) {
        if (!tier.holds(head.kind, head.key)) continue;
        ++num_held;
        const auto file = read(tier, head.kind, head.key);
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_EQ(file->head, head);
        ASSERT_EQ(file->payload, payload_of(head, kLargePayload));
      }
    }
    ASSERT_EQ(tier.stats().entries, num_held);
  }
};

TEST_F(DiskTierKillTest, NothingReportedIsLostAndNothingWrongIsFound) {
  std::mt19937 random(3);
  int num_reported = 0;
  int num_left_half = 0;
  for (int folder = 0; folder < kKills / kKillsPerFolder; ++folder) {
    std::vector<int> reported;
    int next = 0;
    for (int i = 0; i < kKillsPerFolder; ++i) {
      const std::size_t num_texts = random() % 2;
      const auto done = run_until_killed([&](int out) { write_for_ever(next, out); }, num_texts,
                                         std::chrono::microseconds(random() % 15'000));
      reported.insert(reported.end(), done.begin(), done.end());
      next = (done.empty() ? next : done.back() + 1) + 1;  // what it was at may be half there
      num_left_half += std::filesystem::exists(options_.directory) ? num_unfinished() : 0;
      const auto tier = open();
      ASSERT_TRUE(tier);
      ASSERT_EQ(num_unfinished(), 0);
      ASSERT_NO_FATAL_FAILURE(expect_held(*tier, reported));
    }
    ASSERT_NO_FATAL_FAILURE(expect_right(*open(), next));
    num_reported += static_cast<int>(reported.size());
    std::filesystem::remove_all(options_.directory);
  }
  // Otherwise it was never killed at a moment that matters.
  EXPECT_GT(num_reported, 0);
  EXPECT_GT(num_left_half, 0);
  std::cout << num_reported << " texts reported, " << num_left_half << " files left half written\n";
}

TEST_F(DiskTierKillTest, WhoReadsLosesAndSpoilsNothing) {
  constexpr int kTexts = 4;
  std::vector<Written> texts;
  std::vector<int> all;
  {
    const auto tier = open();
    for (int number = 0; number < kTexts; ++number) {
      Written text{.tokens = text_of_number(number), .heads = heads_of_number(number), .payloads = {}};
      for (const StoredHead& head : text.heads) {
        text.payloads.push_back(payload_of(head, kLargePayload));
        ASSERT_TRUE(tier->write(head, text.payloads.back()));
      }
      texts.push_back(std::move(text));
      all.push_back(number);
    }
    ASSERT_TRUE(flush(*tier));
  }
  const int num_all_files = num_files();
  std::mt19937 random(5);
  std::size_t num_read = 0;
  for (unsigned i = 0; i < kKills; ++i) {
    const auto read = [&](int out) { read_for_ever(texts, i, out); };
    num_read += run_until_killed(read, random() % 2, std::chrono::microseconds(random() % 8'000)).size();
    const auto tier = open();
    ASSERT_TRUE(tier);
    ASSERT_EQ(num_files(), num_all_files) << "nothing is gone, and nothing half written is left";
    ASSERT_NO_FATAL_FAILURE(expect_held(*tier, all)) << i;
    if (i % 10 == 9) {
      ASSERT_NO_FATAL_FAILURE(expect_right(*tier, kTexts)) << i;
    }
  }
  EXPECT_GT(num_read, kKills / 5) << "it was hardly ever killed after it had read something";
  std::cout << num_read << " texts read\n";
}

}  // namespace
}  // namespace redpoll::cache
