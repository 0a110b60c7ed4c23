#include "kernels/kernel_options.h"

#include <gtest/gtest.h>

namespace redpoll::kernels {
namespace {

TEST(KernelOptionsTest, ActivationsHaveNames) {
  EXPECT_EQ(parse_activations("float32").value(), Activations::kFloat32);
  EXPECT_EQ(parse_activations("int8").value(), Activations::kInt8);
}

TEST(KernelOptionsTest, OtherNamesAreRefusedWithTheChoices) {
  for (const char* name : {"Int8", "", "float16"}) {
    const auto parsed = parse_activations(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().message, "expected one of float32, int8; got '" + std::string(name) + "'");
    EXPECT_EQ(parsed.error().param, "activations");
  }
}

}  // namespace
}  // namespace redpoll::kernels
