#include "kernels/kernel_options.h"

#include <gtest/gtest.h>

namespace redpoll::kernels {
namespace {

TEST(KernelOptionsTest, RoundsWhatMeetsFourAndEightBitsInWholeGroups) {
  EXPECT_TRUE(rounds_to_int8(Activations::kInt8, 4, 32));
  EXPECT_TRUE(rounds_to_int8(Activations::kInt8, 8, 128));
  EXPECT_FALSE(rounds_to_int8(Activations::kInt8, 4, 16));
  EXPECT_FALSE(rounds_to_int8(Activations::kInt8, 6, 32));
  EXPECT_FALSE(rounds_to_int8(Activations::kInt8, 0, 0)) << "dense weights";
  EXPECT_FALSE(rounds_to_int8(Activations::kFloat32, 4, 32));
}

TEST(KernelOptionsTest, KvTypesHaveNamesAndOthersAreRefusedWithTheChoices) {
  EXPECT_EQ(parse_kv_type("f16").value(), KvType::kF16);
  EXPECT_EQ(parse_kv_type("f32").value(), KvType::kF32);
  for (const char* name : {"F16", "", "int8"}) {
    const auto parsed = parse_kv_type(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().message, "expected one of f16, f32; got '" + std::string(name) + "'");
    EXPECT_EQ(parsed.error().param, "kv");
  }
}

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

TEST(KernelOptionsTest, WhatAGpuWouldIgnoreIsRefusedThere) {
  EXPECT_TRUE(check_options({.activations = Activations::kInt8}, true));
  EXPECT_TRUE(check_options({}, false));
  const Status refused = check_options({.activations = Activations::kInt8}, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().param, "activations");
  EXPECT_EQ(refused.error().message,
            "--activations int8 is for computing on a CPU, and this machine computes on its GPU; leave it out");
}

}  // namespace
}  // namespace redpoll::kernels
