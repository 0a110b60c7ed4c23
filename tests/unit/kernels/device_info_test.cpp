#include "kernels/device_info.h"

#include <gtest/gtest.h>
#include <mlx/device.h>
#include <mlx/version.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "kernels/kernels.h"

namespace redpoll::kernels {
namespace {

TEST(DeviceInfo, NamesTheKernelSetThatAnEngineWouldGet) {
  EXPECT_EQ(describe_device().kernel_set, make_kernels({})->name());
}

TEST(DeviceInfo, IsOneDevice) {
  EXPECT_EQ(describe_device().device, computes_on_cpu() ? "cpu" : "gpu");
  EXPECT_TRUE(device_identity().starts_with(describe_device().device + " "));
}

TEST(DeviceIdentity, IsTheSameEachTimeAndNamesMlx) {
  const std::string identity = device_identity();
  EXPECT_EQ(device_identity(), identity);
  EXPECT_NE(identity.find(std::string(" mlx ") + mx::version()), std::string::npos) << identity;
}

// MLX reads the variable once, when it first needs it, so each value has a process of its own.
TEST(DeviceIdentity, OnAGpuSaysWhetherFloatsAreRoundedToTf32) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto say_with = [](const char* value) {
    ::setenv("MLX_ENABLE_TF32", value, 1);
    std::cerr << "identity:" << device_identity() << ".\n";
    std::_Exit(0);
  };
  const bool is_gpu = mx::default_device() == mx::Device::gpu;
  EXPECT_EXIT(say_with("1"), testing::ExitedWithCode(0), is_gpu ? "identity:gpu.* tf32\\.\n" : "identity:cpu ");
  EXPECT_EXIT(say_with("0"), testing::ExitedWithCode(0), is_gpu ? "identity:gpu.*[^2]\\.\n" : "identity:cpu ");
}

}  // namespace
}  // namespace redpoll::kernels
