// What CPU kernels stand on: buffers, the fork/join team, the choice of a variant and of a number of threads.
#include <gmock/gmock.h>
#include <mlx/device.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/host_view.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/topology.h"
#include "unit/kernels/fixtures.h"

namespace redpoll::kernels::cpu {
namespace {

TEST(BufferTest, ArraysShareOurAlignedMemory) {
  ASSERT_TRUE(arrays_share_our_memory());
  for (const int size : {1, 3, 63, 64, 65, 576, 100'000}) {
    HostArray x = make_array({size});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data) % 64, 0U);
    EXPECT_EQ(x.array.data<float>(), x.data);
    EXPECT_TRUE(x.array.is_available());
    std::fill_n(x.data, size, 2.0F);
    EXPECT_EQ(mx::sum(x.array).item<float>(), 2.0F * static_cast<float>(size));  // stock operations read it
  }
}

TEST(BufferTest, RecyclesTheMemoryOfDeadArrays) {
  const float* first = make_array({777}).data;
  const std::size_t kept = recycled_bytes();
  EXPECT_GE(kept, 777 * sizeof(float));
  {
    HostArray again = make_array({776});
    EXPECT_EQ(again.data, first);
    EXPECT_LT(recycled_bytes(), kept);
    HostArray other = make_array({777});
    EXPECT_NE(other.data, first);
  }
  EXPECT_GE(recycled_bytes(), kept);
}

TEST(BufferTest, KeepsMemoryAliveWhileAnyArraySharesIt) {
  mx::array view = mx::array(0.0F);
  const float* data = nullptr;
  {
    HostArray x = make_array({64});
    std::fill_n(x.data, 64, 3.0F);
    data = x.data;
    view = mx::reshape(x.array, {8, 8});
  }
  EXPECT_NE(make_array({64}).data, data);
  EXPECT_EQ(mx::sum(view).item<float>(), 192.0F);
}

TEST(BufferTest, TakesMemoryBackFromOtherThreads) {
  HostArray x = make_array({50});
  std::thread([array = std::move(x.array)]() mutable { array = mx::array(0.0F); }).join();
  EXPECT_GE(recycled_bytes(), 50 * sizeof(float));
}

TEST(BufferTest, ZerosAreZeroAndAligned) {
  for (const mx::Dtype dtype : {mx::float32, mx::float16}) {
    const mx::array x = make_zeros({3, 1'000'003}, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.nbytes(), 3'000'009U * dtype.size());
    const auto* bytes = x.data<std::byte>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % 64, 0U);
    EXPECT_TRUE(std::all_of(bytes, bytes + x.nbytes(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(HostViewTest, LooksThroughAPendingReshape) {
  const HostArray x = make_array({6, 4});
  const HostView view(mx::reshape(mx::reshape(x.array, {24}), {2, 12}));
  EXPECT_EQ(view.data(), x.data);
  EXPECT_EQ(view.size(), 24);
}

TEST(HostViewTest, KeepsTheArrayThatItReads) {
  const float* data = nullptr;
  const HostView view = [&] {
    const HostArray x = make_array({100});
    data = x.data;
    return HostView(x.array);
  }();
  EXPECT_NE(make_array({100}).data, data);
  EXPECT_EQ(view.data(), data);
}

/// Sums [0, count) in parts and checks that each index was visited once.
void expect_every_index_once(ThreadTeam& team, std::int64_t count, std::int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
  std::atomic<int> bad_parts{0};
  team.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    if (begin < 0 || begin >= end || end > count) bad_parts.fetch_add(1);
    for (std::int64_t i = begin; i < end; ++i) visits[static_cast<std::size_t>(i)].fetch_add(1);
  });
  EXPECT_EQ(bad_parts.load(), 0);
  for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
}

TEST(ThreadTeamTest, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 5}) {
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

TEST(TopologyTest, ReadsAControlGroupsQuota) {
  EXPECT_EQ(cores_of_quota("max 100000"), 0);
  EXPECT_EQ(cores_of_quota("200000 100000"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("50000 100000"), 1);
  for (const char* broken : {"", "max", "100000", "100000 ", "-1 100000", "100000 0", "x y"}) {
    EXPECT_EQ(cores_of_quota(broken), 0) << broken;
  }
}

TEST(TopologyTest, FindsAtLeastOneCoreAndNoMoreThanTheMachineHas) {
  EXPECT_GE(num_usable_cores(), 1);
  EXPECT_LE(num_usable_cores(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

TEST(VariantTest, IsTheFastestUnlessOneIsNamed) {
  EXPECT_EQ(available_variants().front(), Variant::kPortable);
  EXPECT_EQ(choose_variant(nullptr), available_variants().back());
  EXPECT_EQ(choose_variant(""), available_variants().back());
  for (const Variant variant : available_variants()) {
    EXPECT_EQ(choose_variant(std::string(variant_name(variant)).c_str()), variant);
  }
}

TEST(VariantTest, WarnsOfAnUnknownNameAndTakesTheFastest) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(choose_variant("mmx"), available_variants().back());
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, testing::HasSubstr("REDPOLL_CPU names no kernels that this machine has; taking the fastest"));
  EXPECT_THAT(logged, testing::HasSubstr("mmx"));
  EXPECT_THAT(logged, testing::HasSubstr("portable"));
}

TEST(MakeKernelsTest, ChoosesCpuKernelsUnlessTheReferenceIsAskedFor) {
  ASSERT_EQ(mx::default_device(), mx::Device::cpu);
  EXPECT_EQ(make_kernels({.num_threads = 1, .reference = true})->name(), "reference");
  const std::string fastest(variant_name(choose_variant(std::getenv("REDPOLL_CPU"))));
  EXPECT_EQ(make_kernels({})->name(), "cpu-" + fastest);
}

TEST(MakeKernelsTest, ObeysTheEnvironment) {
  const char* before = std::getenv("REDPOLL_CPU");
  const std::string saved = before == nullptr ? "" : before;
  ASSERT_EQ(setenv("REDPOLL_CPU", "portable", 1), 0);
  EXPECT_EQ(make_kernels({.num_threads = 1})->name(), "cpu-portable");
  ASSERT_EQ(saved.empty() ? unsetenv("REDPOLL_CPU") : setenv("REDPOLL_CPU", saved.c_str(), 1), 0);
}

}  // namespace
}  // namespace redpoll::kernels::cpu
