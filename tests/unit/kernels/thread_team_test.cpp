// The fork/join team: every index once, whoever is late, asleep or away; and that waiting costs nothing.
#include "kernels/cpu/parallel_for.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

namespace redpoll::kernels::cpu {
namespace {

/// Visits [0, count) in parts and checks that each is as long as it was asked for, and each index was visited once.
void expect_every_index_once(ThreadTeam& team, std::int64_t count, std::int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
  std::atomic<int> bad_parts{0};
  const std::int64_t length = team.num_threads() == 1 ? count : grain;
  team.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (begin % length != 0 || end != std::min(begin + length, count)) bad_parts.fetch_add(1);
    for (std::int64_t i = begin; i < end; ++i) visits[static_cast<std::size_t>(i)].fetch_add(1);
  });
  EXPECT_EQ(bad_parts.load(), 0);
  for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
}

TEST(ThreadTeamTest, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 5, 16}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.num_threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1'000}) {
      for (const std::int64_t grain : {1, 3, 64, 5'000}) expect_every_index_once(team, count, grain);
    }
  }
}

TEST(ThreadTeamTest, SurvivesManyShortJobsWithAndWithoutPauses) {
  ThreadTeam team(3);
  std::vector<std::int64_t> plain(64);  // written without atomics: the join must order the writes
  for (int job = 0; job < 5'000; ++job) {
    team.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) plain[static_cast<std::size_t>(i)] += i;
    });
    if (job % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // let helpers fall asleep
  }
  for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(plain[static_cast<std::size_t>(i)], 5'000 * i);
}

TEST(ThreadTeamTest, UsesItsHelpers) {
  ThreadTeam team(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  // The caller's parts wait for a helper, so that this ends only if one comes.
  team.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    if (std::this_thread::get_id() != caller) helped = true;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!helped && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  });
  EXPECT_TRUE(helped);
}

TEST(ThreadTeamTest, EveryThreadBeginsWithItsOwnShareAndGoesThroughItInOrder) {
  ThreadTeam team(2);
  std::atomic<int> num_come{0};
  std::vector<std::int64_t> taken[2];  // by each thread
  team.parallel_for(64, 4, [&](std::int64_t begin, std::int64_t) {
    auto& mine = taken[ThreadTeam::this_thread()];
    if (mine.empty()) num_come.fetch_add(1);
    mine.push_back(begin);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (num_come < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  });
  ASSERT_EQ(num_come, 2);
  EXPECT_EQ(taken[0].front(), 0);
  EXPECT_EQ(taken[1].front(), 32);
  for (const std::int64_t first : {0, 32}) {  // what is taken of the other's share comes after the own one
    const auto place = [&](std::int64_t begin) { return (begin - first + 64) % 64; };
    EXPECT_TRUE(std::ranges::is_sorted(taken[first / 32], {}, place)) << "share from " << first;
  }
}

TEST(ThreadTeamTest, TheCallerFinishesAloneWhileHelpersAreAway) {
  ThreadTeam team(3);
  std::atomic<bool> release{false};
  std::atomic<int> num_held{0};
  const auto caller = std::this_thread::get_id();
  // Helpers hold one part each, so the caller has the other 62 to itself; it waits for these two alone.
  std::atomic<int> by_caller{0};
  team.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t) {
    if (std::this_thread::get_id() != caller) {
      num_held.fetch_add(1);
      release.wait(false);
      return;
    }
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (begin < 3 && num_held < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    if (by_caller.fetch_add(1) + 1 == 62) {
      release = true;
      release.notify_all();
    }
  });
  EXPECT_EQ(by_caller.load(), 62);
}

TEST(ThreadTeamTest, ACallerThatFellAsleepIsWoken) {
  ThreadTeam team(2);
  const auto caller = std::this_thread::get_id();
  for (int job = 0; job < 20; ++job) {
    std::atomic<bool> helper_has_one{false};
    bool helper_is_done = false;  // without atomics: the join must order it
    team.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() != caller) {
        helper_has_one = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a hundred times as long as anybody spins
        helper_is_done = true;
        return;
      }
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!helper_has_one && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    });
    ASSERT_TRUE(helper_has_one);
    ASSERT_TRUE(helper_is_done);
  }
}

/// Time that this process has computed so far.
std::chrono::milliseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return std::chrono::duration_cast<std::chrono::milliseconds>(of(usage.ru_utime) + of(usage.ru_stime));
}

TEST(ThreadTeamTest, WhoWaitsComputesNothing) {
  ThreadTeam team(3);
  const auto caller = std::this_thread::get_id();
  const auto before = cpu_time();
  std::atomic<bool> helper_has_one{false};
  team.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {  // one helper sleeps in a part, the other has none
    if (std::this_thread::get_id() != caller) {
      helper_has_one = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      return;
    }
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!helper_has_one && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // nothing to do for anybody
  EXPECT_LT(cpu_time() - before, std::chrono::milliseconds(100));
}

TEST(ThreadTeamTest, MoreThreadsThanCoresFinishTheirJobs) {
  std::vector<std::jthread> busy;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([](const std::stop_token& stop) {
      for (volatile int spin = 0; !stop.stop_requested();) spin = spin + 1;
    });
  }
  ThreadTeam team(4);
  std::vector<std::int64_t> plain(256);
  for (int job = 0; job < 300; ++job) {
    team.parallel_for(256, 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) plain[static_cast<std::size_t>(i)] += i;
    });
  }
  for (std::int64_t i = 0; i < 256; ++i) ASSERT_EQ(plain[static_cast<std::size_t>(i)], 300 * i);
}

TEST(ThreadTeamTest, BodiesKnowWhoRunsThem) {
  ThreadTeam team(4);
  std::vector<std::atomic<int>> running(4);
  std::atomic<int> num_bad{0};
  team.parallel_for(2'000, 1, [&](std::int64_t, std::int64_t) {
    const int self = ThreadTeam::this_thread();
    if (self < 0 || self >= 4 || running[static_cast<std::size_t>(self)].fetch_add(1) != 0) return (void)++num_bad;
    std::this_thread::yield();
    --running[static_cast<std::size_t>(self)];
  });
  EXPECT_EQ(num_bad.load(), 0) << "no two threads are the same one at once";
}

// Sanitizers keep address space of their own; elsewhere than on Linux the limit is not kept.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/// Exits with 0 if a team too large for the address space that is left throws, and a small one works thereafter.
void make_a_team_that_is_too_large() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto in_use = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit room{.rlim_cur = in_use + (rlim_t{256} << 20U), .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &room);
  try {
    const ThreadTeam team(10'000);
    _exit(1);
  } catch (const std::system_error&) {
    ThreadTeam team(2);
    expect_every_index_once(team, 64, 1);
    _exit(testing::Test::HasFailure() ? 2 : 0);
  }
}

TEST(ThreadTeamDeathTest, ATeamThatTheSystemRefusesLeavesNoThreadBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(make_a_team_that_is_too_large(), testing::ExitedWithCode(0), "");
}

#endif

}  // namespace
}  // namespace redpoll::kernels::cpu
