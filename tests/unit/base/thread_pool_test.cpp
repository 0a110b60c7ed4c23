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
