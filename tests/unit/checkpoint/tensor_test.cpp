#include "checkpoint/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/gguf/half.h"

namespace redpoll::checkpoint {
namespace {

TEST(DTypeTest, NamesAndWidthsMatchTheFormat) {
  const std::pair<const char*, int> expected[] = {
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},    {"F8_E4M3", 8},
      {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16}, {"BF16", 16}, {"I32", 32},
      {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},    {"I64", 64}, {"U64", 64}};
  for (const auto& [name, bits] : expected) {
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    EXPECT_EQ(dtype_bits(*dtype), bits) << name;
  }
  EXPECT_FALSE(dtype_from_name("f32"));
  EXPECT_FALSE(dtype_from_name(""));
}

TEST(ArrayBytesTest, CountsBytesAndRefusesWhatHasNone) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(array_bytes(DType::kF32, Shape{2, 3}), 24U);
  EXPECT_EQ(array_bytes(DType::kF32, Shape{}), 4U);
  EXPECT_EQ(array_bytes(DType::kF4, Shape{3, 2}), 3U);
  EXPECT_EQ(array_bytes(DType::kF6E2M3, Shape{4}), 3U);
  EXPECT_EQ(array_bytes(DType::kF4, Shape{3}), std::nullopt);  // ends within a byte
  EXPECT_EQ(array_bytes(DType::kF32, Shape{-1, 4}), std::nullopt);
  EXPECT_EQ(array_bytes(DType::kF32, Shape{0, -4}), std::nullopt);
  EXPECT_EQ(array_bytes(DType::kF32, Shape{0, 1LL << 62}), 0U);
  EXPECT_EQ(array_bytes(DType::kU8, Shape{1LL << 32, 1LL << 32}), std::nullopt);
  EXPECT_EQ(array_bytes(DType::kF64, Shape{1LL << 62}), std::nullopt);
}

TEST(ParameterMapTest, KeepsTheFirstOfANameAndListsThemInOrder) {
  ParameterMap map;
  EXPECT_TRUE(map.insert("b", Tensor{DType::kU8, {1}, {}, nullptr}));
  EXPECT_TRUE(map.insert("a", Tensor{DType::kI8, {2}, {}, nullptr}));
  EXPECT_FALSE(map.insert("b", Tensor{DType::kF32, {3}, {}, nullptr}));
  EXPECT_EQ(map.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(map.read("b")->dtype, DType::kU8);
  EXPECT_FALSE(map.read("c"));
}

TEST(ParameterMapTest, ComputesATensorWheneverItIsRead) {
  ParameterMap map;
  int times = 0;
  EXPECT_TRUE(map.insert("a", [&] { return Tensor{DType::kU8, {++times}, {}, nullptr}; }));
  EXPECT_FALSE(map.insert("a", [] { return Tensor{}; }));
  EXPECT_TRUE(map.contains("a"));
  EXPECT_EQ(times, 0);
  EXPECT_EQ(map.read("a")->shape, std::vector<std::int64_t>{1});
  EXPECT_EQ(ParameterMap(map).read("a")->shape, std::vector<std::int64_t>{2});
}

TEST(MakeTensorTest, CopiesOnlyBytesThatAreNotAligned) {
  alignas(8) const std::byte memory[16] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  const Tensor view = make_tensor(DType::kF32, {1}, std::span(memory).first(4), nullptr);
  EXPECT_EQ(view.bytes.data(), memory);
  const Tensor copy = make_tensor(DType::kF32, {1}, std::span(memory).subspan(1, 4), nullptr);
  EXPECT_NE(copy.bytes.data(), memory + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copy.bytes.data()) % 4, 0U);
  EXPECT_TRUE(std::ranges::equal(copy.bytes, std::span(memory).subspan(1, 4)));
}

TEST(HalfTest, EveryHalfGoesToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(exact_half(half_to_float(half)), half) << bits;
  }
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0xC000), -2.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0F);
  EXPECT_TRUE(std::isinf(half_to_float(0x7C00)));
}

TEST(HalfTest, FloatsBetweenHalvesAreNotExact) {
  for (const float value : {1.0F + 0x1p-11F, 65536.0F, 0x1p-25F, 0x1.8p-24F, 1e-40F, 0x1.004p-15F}) {
    EXPECT_EQ(exact_half(value), std::nullopt) << value;
  }
}

TEST(ParameterMapTest, FindsNamesByWhatTheyStartWith) {
  ParameterMap map;
  for (const char* name : {"b.x", "a", "b.", "b", "b.y.z", "c.b.x"}) ASSERT_TRUE(map.insert(name, Tensor{}));
  EXPECT_EQ(map.names("b."), (std::vector<std::string>{"b.", "b.x", "b.y.z"}));
  EXPECT_EQ(map.names("d"), std::vector<std::string>{});
  EXPECT_EQ(map.names().size(), 6U);
}

}  // namespace
}  // namespace redpoll::checkpoint
