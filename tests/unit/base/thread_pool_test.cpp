#include "base/thread_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <set>

namespace redpoll {
namespace {

TEST(ThreadPool, RunsEveryTaskBeforeItIsGone) {
  std::atomic<int> num_run = 0;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 1000; ++i) pool.post([&] { ++num_run; });
  }
  EXPECT_EQ(num_run, 1000);
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) pool.post([&order, i] { order.push_back(i); });
  }
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(ThreadPool, TasksRunAtTheSameTime) {
  std::latch everybody_is_here(3);  // passes only if three tasks wait together
  std::set<std::thread::id> threads;
  std::mutex mutex;
  {
    ThreadPool pool(3);
    for (int i = 0; i < 3; ++i) {
      pool.post([&] {
        everybody_is_here.arrive_and_wait();
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
    }
  }
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, LongTasksLeaveAThreadToShortOnes) {
  std::latch release(1);
  std::latch short_ran(1);
  std::atomic<int> num_long_running = 0;
  ThreadPool pool(3);
  for (int i = 0; i < 10; ++i) {
    pool.post(
        [&] {
          ++num_long_running;
          release.wait();
        },
        TaskLength::kLong);
  }
  pool.post([&] { short_ran.count_down(); });
  short_ran.wait();  // for ever, if long tasks held every thread
  EXPECT_LE(num_long_running, 2);
  release.count_down();
}

TEST(ThreadPool, ShortTasksDoNotKeepLongOnesWaiting) {
  std::atomic<bool> long_ran = false;
  std::function<void()> endless;  // outlives the pool, whose tasks go on with it
  ThreadPool pool(2);
  endless = [&] {
    if (!long_ran) pool.post(endless);
  };
  for (int i = 0; i < 4; ++i) pool.post(endless);  // there is always a short one
  pool.post([&] { long_ran = true; }, TaskLength::kLong);
  while (!long_ran) std::this_thread::yield();
}

TEST(ThreadPool, RunsEveryTaskOfBothKindsBeforeItIsGone) {
  for (const int num_threads : {1, 2, 3}) {
    std::atomic<int> num_run = 0;
    {
      ThreadPool pool(num_threads);
      for (int i = 0; i < 200; ++i) pool.post([&] { ++num_run; }, i % 3 == 0 ? TaskLength::kLong : TaskLength::kShort);
    }
    EXPECT_EQ(num_run, 200) << num_threads;
  }
}

TEST(ThreadPool, ATaskMayPostAnother) {
  std::atomic<int> depth = 0;
  std::latch finished(1);
  ThreadPool pool(1);
  std::function<void()> task = [&] {
    if (++depth < 10) {
      pool.post(task);
    } else {
      finished.count_down();
    }
  };
  pool.post(task);
  finished.wait();
  EXPECT_EQ(depth, 10);
}

TEST(ThreadPool, WhatATaskPostsDuringDestructionStillRuns) {
  std::atomic<bool> ran = false;
  {
    ThreadPool pool(1);
    pool.post([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the destructor is waiting by now
      pool.post([&] { ran = true; });
    });
  }
  EXPECT_TRUE(ran);
}

TEST(ThreadPool, ManyThreadsMayPost) {
  std::atomic<int> num_run = 0;
  {
    ThreadPool pool(2);
    std::vector<std::jthread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int j = 0; j < 250; ++j) pool.post([&] { ++num_run; });
      });
    }
    posters.clear();  // joins
  }
  EXPECT_EQ(num_run, 1000);
}

TEST(ThreadPool, ReleasesATaskOnceItHasRun) {
  auto held = std::make_shared<int>(1);
  {
    ThreadPool pool(1);
    pool.post([held] {});
    std::latch next_runs(1);
    pool.post([&] { next_runs.count_down(); });
    next_runs.wait();
    EXPECT_EQ(held.use_count(), 1);
  }
}

TEST(ThreadPoolDeathTest, NeedsAThread) { EXPECT_DEATH(ThreadPool(0), "a pool needs a thread"); }

}  // namespace
}  // namespace redpoll
