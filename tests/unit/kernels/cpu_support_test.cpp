// What CPU kernels stand on: buffers and the choice of a variant.
#include <gmock/gmock.h>
#include <mlx/device.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/host_view.h"
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

/// Sizes that no other test uses, so that there is one block: of 14 units, where classes are of 8, 10, 12, 14 and 16.
TEST(BufferTest, GivesABlockToArraysOfTheNextTwoSmallerClasses) {
  constexpr int kUnit = 1 << 20;  // floats
  const auto array_of = [](int units) { return make_array({units * kUnit - 1000}); };
  const float* block = array_of(14).data;
  EXPECT_EQ(array_of(12).data, block);
  EXPECT_EQ(array_of(10).data, block);
  EXPECT_NE(array_of(8).data, block);
  EXPECT_NE(array_of(16).data, block);
  const HostArray exact = array_of(14);
  EXPECT_EQ(exact.data, block);
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

#if defined(__linux__)
TEST(BufferTest, ZerosTakeNoMemoryUntilTheyAreWritten) {
  mx::array x = make_zeros({16, 1 << 20U}, mx::float32);
  auto* bytes = x.data<std::byte>();
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % kHugePage, 0U);
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto num_resident = [&] {
    std::vector<unsigned char> pages(x.nbytes() / page_bytes);
    EXPECT_EQ(mincore(bytes, x.nbytes(), pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) != 0; });
  };
  EXPECT_EQ(num_resident(), 0);
  bytes[5] = std::byte{1};
  EXPECT_THAT(static_cast<std::size_t>(num_resident()), testing::AnyOf(1U, kHugePage / page_bytes)) << "or a huge one";
}
#endif

TEST(WeightMemoryTest, KeepsMatricesApartAndSmallOnesSideBySide) {
  WeightMemory memory;
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  std::vector<std::shared_ptr<std::byte>> parts;
  const std::vector<std::size_t> sizes{100, 1, 9 * kMiB, 200, 7 * kMiB, 7 * kMiB, 8 * kMiB, 64, 20 * kMiB};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(memory.allocate(sizes[i]));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parts[i].get()) % 64, 0U);
    std::fill_n(parts[i].get(), sizes[i], std::byte{static_cast<unsigned char>(i)});
  }
  EXPECT_EQ(parts[1].get() - parts[0].get(), 128);
  EXPECT_EQ(parts[3].get() - parts[1].get(), 64) << "what is large leaves the chunk alone";
  parts[0].reset();  // the others live on
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    EXPECT_EQ(std::count(parts[i].get(), parts[i].get() + sizes[i], std::byte{static_cast<unsigned char>(i)}),
              static_cast<std::ptrdiff_t>(sizes[i]));
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

TEST(VariantTest, IsTheFastestUnlessOneIsNamed) {
  EXPECT_EQ(available_variants().front(), Variant::kPortable);
  EXPECT_EQ(choose_variant(nullptr), available_variants().back());
  EXPECT_EQ(choose_variant(""), available_variants().back());
  for (const Variant variant : available_variants()) {
    EXPECT_EQ(choose_variant(std::string(variant_name(variant)).c_str()), variant);
  }
}

TEST(VariantTest, AnUnknownNameIsAnErrorWithTheChoices) {
  const auto refused = choose_variant("mmx");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "REDPOLL_CPU");
  EXPECT_THAT(refused.error().message, testing::StartsWith("REDPOLL_CPU names kernels that this machine does not have: "
                                                           "expected one of portable"));
  EXPECT_THAT(refused.error().message, testing::EndsWith(", got 'mmx'"));
}

TEST(MakeKernelsTest, ChoosesCpuKernelsUnlessTheReferenceIsAskedFor) {
  ASSERT_EQ(mx::default_device(), mx::Device::cpu);
  EXPECT_EQ(make_kernels({.num_threads = 1, .reference = true})->name(), "reference");
  const std::string fastest(variant_name(*chosen_variant()));
  EXPECT_EQ(make_kernels({.activations = Activations::kFloat32})->name(), "cpu-" + fastest);
}

TEST(MakeKernelsTest, ObeysTheEnvironment) {
  const char* before = std::getenv("REDPOLL_CPU");
  const std::string saved = before == nullptr ? "" : before;
  ASSERT_EQ(setenv("REDPOLL_CPU", "portable", 1), 0);
  EXPECT_EQ(make_kernels({.num_threads = 1})->name(), "cpu-portable");
  EXPECT_TRUE(check_options({}, true));
  ASSERT_EQ(setenv("REDPOLL_CPU", "banana", 1), 0);
  EXPECT_EQ(check_options({}, true).error().param, "REDPOLL_CPU");
  EXPECT_TRUE(check_options({}, false)) << "a GPU has no such kernels";
  ASSERT_EQ(saved.empty() ? unsetenv("REDPOLL_CPU") : setenv("REDPOLL_CPU", saved.c_str(), 1), 0);
}

}  // namespace
}  // namespace redpoll::kernels::cpu
