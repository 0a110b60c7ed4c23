#include "kernels/kernel_options.h"

#include <gtest/gtest.h>

namespace redpoll::kernels {
namespace {

TEST(KernelOptionsTest, RoundsWhatMeetsFourAndEightBits) {
  using enum Activations;
  for (const Activations rounded : {kInt16, kInt8}) {
    EXPECT_EQ(activations_met(rounded, 4, 32), rounded);
    EXPECT_EQ(activations_met(rounded, 8, 128), rounded);
    EXPECT_EQ(activations_met(rounded, 6, 32), kFloat32);
    EXPECT_EQ(activations_met(rounded, 0, 0), kFloat32) << "dense weights";
  }
  EXPECT_EQ(activations_met(kInt16, 4, 16), kInt16);
  EXPECT_EQ(activations_met(kInt8, 4, 16), kFloat32) << "its own groups are longer";
  EXPECT_EQ(activations_met(kFloat32, 4, 32), kFloat32);
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
  for (const Activations activations : {Activations::kFloat32, Activations::kInt16, Activations::kInt8}) {
    EXPECT_EQ(parse_activations(activations_name(activations)).value(), activations);
  }
  EXPECT_EQ(activations_name(Activations::kInt16), "int16");
}

TEST(KernelOptionsTest, OtherNamesAreRefusedWithTheChoices) {
  for (const char* name : {"Int8", "", "float16"}) {
    const auto parsed = parse_activations(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().message, "expected one of float32, int16, int8; got '" + std::string(name) + "'");
    EXPECT_EQ(parsed.error().param, "activations");
  }
}

TEST(KernelOptionsTest, WhatAGpuWouldIgnoreIsRefusedThere) {
  EXPECT_TRUE(check_options({.activations = Activations::kInt8}, true));
  EXPECT_TRUE(check_options({}, false));
  EXPECT_TRUE(check_options({.activations = Activations::kFloat32}, false));
  for (const Activations activations : {Activations::kInt16, Activations::kInt8}) {
    const Status refused = check_options({.activations = activations}, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "activations");
    EXPECT_EQ(refused.error().message,
              "--activations " + std::string(activations_name(activations)) +
                  " is for computing on a CPU, and this machine computes on its GPU; leave it out");
  }
}

TEST(KernelOptionsTest, TheExactTierTakesNoOtherActivations) {
  EXPECT_TRUE(check_exact({.exact = true}));
  EXPECT_TRUE(check_exact({.activations = Activations::kInt8}));
  for (const Activations activations : {Activations::kFloat32, Activations::kInt16, Activations::kInt8}) {
    const KernelOptions both{.exact = true, .activations = activations};
    EXPECT_EQ(check_exact(both).error().param, "activations");
    EXPECT_FALSE(check_options(both, true));
  }
}

/// Nobody has seen there what they compute.
TEST(KernelOptionsTest, ExactCodesAreRefusedOnAGpu) {
  for (const auto& [kv, name] :
       {std::pair(KvQuantization::k8, "8"), {KvQuantization::k4, "4"}, {KvQuantization::kConfig, "config"}}) {
    EXPECT_TRUE(check_options({.kv_quantization = kv}, false));
    const Status refused = check_options({.exact = true, .kv_quantization = kv}, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "kv-quant");
    EXPECT_EQ(refused.error().message, "--exact with --kv-quant " + std::string(name) +
                                           " is for computing on a CPU, where its bits were compared, and this machine "
                                           "computes on its GPU; leave one of them out");
  }
  EXPECT_TRUE(check_options({.exact = true}, false));
}

TEST(KernelOptionsTest, KvQuantizationsHaveNamesInEveryTier) {
  for (const auto& [name, value] : {std::pair("off", KvQuantization::kOff),
                                    {"8", KvQuantization::k8},
                                    {"4", KvQuantization::k4},
                                    {"config", KvQuantization::kConfig}}) {
    EXPECT_EQ(parse_kv_quantization(name).value(), value);
    EXPECT_TRUE(check_options({.kv_quantization = value}, true));
    EXPECT_TRUE(check_options({.exact = true, .kv_quantization = value}, true));
  }
  for (const char* name : {"", "16", "Off", "8 "}) {
    const auto parsed = parse_kv_quantization(name);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().message, "expected one of off, 8, 4, config; got '" + std::string(name) + "'");
  }
}

}  // namespace
}  // namespace redpoll::kernels
