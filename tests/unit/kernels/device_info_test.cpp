#include "kernels/device_info.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace redpoll::kernels
