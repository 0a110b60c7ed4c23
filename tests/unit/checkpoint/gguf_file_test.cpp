#include "checkpoint/gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using testing::floats;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::parse_gguf;
using testing::raw;
using testing::tiny_llama;

std::string message(const std::string& bytes) {
  const auto file = parse_gguf(bytes);
  return file ? "" : file.error().message;
}

TEST(GgufFileTest, ReadsMetadataOfEveryType) {
  const std::string nested = raw(std::uint32_t{GgufBuilder::kArray}) + raw(std::uint64_t{2}) +
                             raw(std::uint32_t{GgufBuilder::kU8}) + raw(std::uint64_t{1}) + "\x07" +
                             raw(std::uint32_t{GgufBuilder::kString}) + raw(std::uint64_t{1}) + GgufBuilder::text("x");
  GgufBuilder builder;
  builder.value("u8", GgufBuilder::kU8, raw(std::uint8_t{200}))
      .value("i8", GgufBuilder::kI8, raw(std::int8_t{-5}))
      .value("u16", GgufBuilder::kU16, raw(std::uint16_t{60000}))
      .value("i16", GgufBuilder::kI16, raw(std::int16_t{-300}))
      .value("u32", GgufBuilder::kU32, raw(std::uint32_t{4000000000U}))
      .value("i32", GgufBuilder::kI32, raw(std::int32_t{-70000}))
      .value("u64", GgufBuilder::kU64, raw(std::uint64_t{1} << 40U))
      .value("i64", GgufBuilder::kI64, raw(std::int64_t{-1} * (std::int64_t{1} << 40U)))
      .value("f32", GgufBuilder::kF32, raw(0.5F))
      .value("f64", GgufBuilder::kF64, raw(0.25))
      .boolean("bool", true)
      .string("text", "hello")
      .numbers<float>("reals", GgufBuilder::kF32, {1.5F, -2})
      .strings("texts", {"a", "", "b"})
      .value("nested", GgufBuilder::kArray, nested);
  const std::string bytes = builder.build();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file) << file.error().message;
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{{"u8", 200},
                                                                                              {"i8", -5},
                                                                                              {"u16", 60000},
                                                                                              {"i16", -300},
                                                                                              {"u32", 4000000000},
                                                                                              {"i32", -70000},
                                                                                              {"u64", 1LL << 40},
                                                                                              {"i64", -(1LL << 40)}}) {
    EXPECT_EQ(file->integer(key, -kAny, kAny).value(), value) << key;
  }
  EXPECT_EQ(file->real("f32").value(), 0.5);
  EXPECT_EQ(file->real("f64").value(), 0.25);
  EXPECT_EQ(file->boolean("bool").value(), true);
  EXPECT_EQ(file->text("text").value(), "hello");
  EXPECT_EQ(file->array("reals").value()->number(1), -2);
  EXPECT_EQ(file->array("texts").value()->texts, (std::vector<std::string_view>{"a", "", "b"}));
  ASSERT_EQ(file->array("nested").value()->arrays.size(), 2U);
  EXPECT_EQ(file->array("nested").value()->arrays[0].number(0), 7);
  EXPECT_EQ(file->array("nested").value()->arrays[1].texts.front(), "x");
  EXPECT_EQ(file->integer("absent", 0, 1).value(), std::nullopt);
  EXPECT_EQ(file->array("absent").value(), nullptr);
}

TEST(GgufFileTest, AccessOfTheWrongTypeNamesTheKey) {
  const std::string bytes = GgufBuilder().u32("n", 7).string("s", "x").build();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->integer("n", 0, 5).error().message,
            "m.gguf: metadata 'n': expected a whole number from 0 to 5, got 7");
  EXPECT_EQ(file->integer("s", 0, 5).error().message, "m.gguf: metadata 's': expected a whole number from 0 to 5");
  EXPECT_EQ(file->real("n").error().message, "m.gguf: metadata 'n': expected a floating-point number");
  EXPECT_EQ(file->boolean("n").error().message, "m.gguf: metadata 'n': expected a boolean");
  EXPECT_EQ(file->text("n").error().message, "m.gguf: metadata 'n': expected a string");
  EXPECT_EQ(file->array("n").error().message, "m.gguf: metadata 'n': expected an array");
  EXPECT_EQ(file->text("n").error().param, "n");
}

TEST(GgufFileTest, TensorShapesAreOutermostFirstAndBytesAreInPlace) {
  const std::string bytes = GgufBuilder()
                                .tensor("a", {3, 2}, GgufType::kF32, floats(6, 1))
                                .tensor("b", {32}, GgufType::kQ80, std::string(34, 'q'))
                                .build(2);
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file->tensors()[1].bytes.size(), 34U);
  EXPECT_EQ(file->tensors()[1].bytes.front(), std::byte{'q'});
}

TEST(GgufFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(message(""), "m.gguf: not a GGUF file: it does not begin with 'GGUF'");
  EXPECT_EQ(message("GGML...."), "m.gguf: not a GGUF file: it does not begin with 'GGUF'");
  EXPECT_EQ(message(GgufBuilder().build(1)), "m.gguf: GGUF version 1 is not supported, expected 2 or 3");
  EXPECT_EQ(message(GgufBuilder().build(0x03000000)), "m.gguf: big-endian GGUF files are not supported");
  EXPECT_EQ(message("GGUF" + raw(std::uint32_t{3}) + raw(~std::uint64_t{0}) + raw(std::uint64_t{0})),
            "m.gguf: truncated or broken: the number of tensors is 18446744073709551615, which needs more than the 8 "
            "bytes that follow");
  EXPECT_EQ(message(GgufBuilder().u32("k", 1).u32("k", 2).build()), "m.gguf: metadata 'k' is there twice");
  EXPECT_EQ(message(GgufBuilder().value("k", 99, "abcdefgh").build()), "m.gguf: metadata 'k' has the unknown type 99");
  EXPECT_EQ(message(GgufBuilder().numbers<float>("k", 98, {1, 2}).build()),
            "m.gguf: metadata 'k' is an array of the unknown type 98");
  EXPECT_THAT(message(GgufBuilder()
                          .value("k", GgufBuilder::kArray,
                                 raw(std::uint32_t{GgufBuilder::kString}) + raw(std::uint64_t{1} << 60U))
                          .build()),
              HasSubstr("the count of metadata 'k' is 1152921504606846976, which needs more than the "));
  EXPECT_EQ(message(GgufBuilder().u32("general.alignment", 48).build()),
            "m.gguf: 'general.alignment' is 48, expected a power of two from 8");
  EXPECT_EQ(message(GgufBuilder().value("split.count", GgufBuilder::kU16, raw(std::uint16_t{3})).build()),
            "m.gguf: one of 3 parts; merge a split model into one file first");
}

TEST(GgufFileTest, ArraysMayNotNestWithoutEnd) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += raw(std::uint32_t{GgufBuilder::kArray}) + raw(std::uint64_t{1});
  EXPECT_EQ(message(GgufBuilder().value("k", GgufBuilder::kArray, bytes + floats(8)).build()),
            "m.gguf: metadata 'k' nests arrays deeper than 4");
}

TEST(GgufFileTest, SaysWhatIsWrongWithATensor) {
  const auto with = [](const std::vector<std::uint64_t>& dimensions, std::uint32_t type, std::uint64_t offset) {
    return message(GgufBuilder().tensor_at("t", dimensions, type, offset).extra_data(floats(64)).build());
  };
  EXPECT_EQ(with({}, 0, 0), "m.gguf: tensor 't' has 0 dimensions, expected 1 to 4");
  EXPECT_EQ(with({1, 1, 1, 1, 1}, 0, 0), "m.gguf: tensor 't' has 5 dimensions, expected 1 to 4");
  EXPECT_EQ(with({0}, 0, 0), "m.gguf: tensor 't' has an extent of 0");
  EXPECT_EQ(with({~std::uint64_t{0}}, 0, 0), "m.gguf: tensor 't' has an extent of 18446744073709551615");
  EXPECT_EQ(with({33}, 2, 0), "m.gguf: tensor 't' has rows of 33 elements, which blocks of 32 do not fill");
  EXPECT_EQ(with({1ULL << 40, 1ULL << 40}, 0, 0),
            "m.gguf: tensor 't' of shape (1099511627776, 1099511627776) has more bytes than there are numbers");
  EXPECT_EQ(with({8}, 0, 4), "m.gguf: tensor 't' is at 4, which is not a multiple of the alignment 32");
  EXPECT_THAT(with({8}, 0, ~std::uint64_t{31}), HasSubstr("m.gguf: tensor 't' ends beyond all numbers"));
  EXPECT_EQ(message(GgufBuilder().tensor("t", {1}, GgufType::kF32, floats(1)).tensor_at("t", {1}, 0, 32).build()),
            "m.gguf: tensor 't' is there twice");
  EXPECT_EQ(message(GgufBuilder().tensor("t", {16}, GgufType::kF32, floats(16)).tensor_at("u", {1}, 0, 32).build()),
            "m.gguf: tensor 'u' at 32 overlaps the one before it, which ends at 64");
}

TEST(GgufFileTest, ATruncatedFileSaysHowLongItShouldBe) {
  const std::string bytes = GgufBuilder().tensor("t", {16}, GgufType::kF32, floats(16)).build();
  EXPECT_EQ(message(bytes.substr(0, bytes.size() - 10)), "m.gguf: truncated: its tensors need " +
                                                             std::to_string(bytes.size()) + " bytes, the file has " +
                                                             std::to_string(bytes.size() - 10));
  EXPECT_EQ(message(bytes.substr(0, 10)), "m.gguf: truncated: the file ends at byte 10, within the number of tensors");
}

TEST(GgufFileTest, ATruncatedFileIsAnErrorAtEveryLength) {
  const std::string bytes = tiny_llama().build();
  ASSERT_TRUE(parse_gguf(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    // A copy of just that length, so that a sanitizer sees any read beyond it.
    const std::vector<std::byte> copy(testing::as_bytes(bytes).begin(),
                                      testing::as_bytes(bytes).begin() + static_cast<std::ptrdiff_t>(length));
    const auto file = GgufFile::parse(copy, nullptr, "m.gguf");
    ASSERT_FALSE(file) << length;
    ASSERT_EQ(file.error().code, ErrorCode::kCorruptFile) << length;
  }
}

}  // namespace
}  // namespace redpoll::checkpoint
