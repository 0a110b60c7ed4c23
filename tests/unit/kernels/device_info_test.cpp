#include "kernels/device_info.h"

#include <gtest/gtest.h>

#include "kernels/kernels.h"

namespace redpoll::kernels {
namespace {

TEST(DeviceInfo, NamesTheKernelSetThatAnEngineWouldGet) {
  EXPECT_EQ(describe_device().kernel_set, make_kernels({})->name());
}

}  // namespace
}  // namespace redpoll::kernels
