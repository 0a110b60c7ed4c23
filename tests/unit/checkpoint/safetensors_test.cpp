#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using testing::as_bytes;
using ::testing::HasSubstr;
using testing::safetensors;
using testing::TemporaryFolder;

Result<ParameterMap> read(std::string bytes) {
  const auto storage = std::make_shared<const std::string>(std::move(bytes));
  ParameterMap parameters;
  RETURN_IF_ERROR(read_safetensors(as_bytes(*storage), storage, "f", parameters));
  return parameters;
}

std::string message(const std::string& bytes) {
  const auto result = read(bytes);
  return result ? "" : result.error().message;
}

std::string one_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"a":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) + R"(,"data_offsets":)" +
         std::string(offsets) + "}}";
}

TEST(SafetensorsTest, ReadsTensorsOfEveryType) {
  for (const char* name : {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E4M3", "F8_E5M2",
                           "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
                           "U32",     "F32",         "C64",         "F64",     "I64", "U64"}) {
    const auto dtype = *dtype_from_name(name);
    const auto size = static_cast<std::size_t>(dtype_bits(dtype));  // 2 x 4 elements are as many bytes as one has bits
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i + 1);
    const auto parameters = read(safetensors(one_tensor(name, "[2,4]", "[0," + std::to_string(size) + "]"), data));
    ASSERT_TRUE(parameters) << parameters.error().message;
    const std::optional<Tensor> tensor = parameters->read("a");
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 4}));
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, as_bytes(data))) << name;
  }
}

TEST(SafetensorsTest, AcceptsMetadataScalarsEmptyTensorsAndAnyOrder) {
  const auto parameters = read(safetensors(
      R"({"__metadata__":{"format":"mlx"},"z":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
      "12345678"));
  ASSERT_TRUE(parameters) << parameters.error().message;
  EXPECT_EQ(parameters->names(), (std::vector<std::string>{"a", "e", "z"}));
  EXPECT_EQ(parameters->read("a")->bytes.size(), 4U);
  EXPECT_EQ(parameters->read("e")->bytes.size(), 0U);
  EXPECT_EQ(parameters->read("z")->bytes.size(), 4U);
}

TEST(SafetensorsTest, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(message("abc"), "f: too short for a safetensors file: 3 bytes");
  EXPECT_EQ(message(testing::raw(std::uint64_t{100'000'001})),
            "f: its header claims 100000001 bytes, more than the limit of 100000000");
  EXPECT_EQ(message(testing::raw(std::uint64_t{3}) + "{}"), "f: truncated: its header claims 3 bytes, the file has 10");
  EXPECT_THAT(message(safetensors("{", "")), HasSubstr("f: header: malformed JSON at byte 1"));
  EXPECT_EQ(message(safetensors("[]", "")), "f: header: expected an object");
  EXPECT_EQ(message(safetensors(R"({"a":1})", "")), "f: the header's entry 'a' is not an object");
  EXPECT_EQ(message(safetensors(R"({"a":{}})", "")), "f: tensor 'a' needs a 'dtype' that is a string");
  EXPECT_EQ(message(safetensors(one_tensor("F33", "[1]", "[0,4]"), "1234")),
            "f: tensor 'a' has the unknown dtype 'F33'");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "7", "[0,4]"), "1234")),
            "f: tensor 'a' needs a 'shape' of at most 32 whole numbers");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[-1]", "[0,4]"), "1234")),
            "f: tensor 'a' has an extent that is not a whole number from 0: -1");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[18446744073709551615]", "[0,4]"), "1234")),
            "f: tensor 'a' has an extent that is not a whole number from 0: 18446744073709551615");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[1]", "[0]"), "1234")),
            "f: tensor 'a' needs 'data_offsets' of two whole numbers");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[1]", "[0,8]"), "1234")),
            "f: tensor 'a' lies at bytes 0 to 8 of a data section of 4");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[1]", "[4,0]"), "1234")),
            "f: tensor 'a' lies at bytes 4 to 0 of a data section of 4");
  EXPECT_EQ(message(safetensors(one_tensor("F32", "[2]", "[0,4]"), "1234")),
            "f: tensor 'a' of shape (2) and dtype F32 needs 8 bytes, has 4");
  EXPECT_EQ(message(safetensors(one_tensor("U8", "[4294967296,4294967296]", "[0,4]"), "1234")),
            "f: tensor 'a' of shape (4294967296, 4294967296) and dtype U8 needs more bytes than there are numbers, "
            "has 4");
}

TEST(SafetensorsTest, RefusesOverlapsGapsRestsAndDoubleNames) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(message(safetensors(two("[0,4]", "[2,6]"), "123456")),
            "f: tensor 'b' begins at byte 2, which overlaps the one before it, ending at 4");
  EXPECT_EQ(message(safetensors(two("[0,4]", "[5,9]"), "123456789")),
            "f: tensor 'b' begins at byte 5, which leaves a gap after 4");
  EXPECT_EQ(message(safetensors(two("[0,4]", "[4,8]"), "123456789")), "f: tensors fill 8 bytes of a data section of 9");
  EXPECT_EQ(message(safetensors(two("[0,4]", "[4,8]"), "12345678")), "");
  std::string same = two("[0,4]", "[4,8]");
  same.replace(same.find("\"b\""), 3, "\"a\"");
  EXPECT_EQ(message(safetensors(same, "12345678")), "f: header: a name is there twice");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "1234")),
            "f: header: a name is there twice");
}

TEST(SafetensorsTest, ColonsAndQuotesInNamesAreNoDoubles) {
  EXPECT_EQ(message(safetensors(R"({"a:\":\\":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1")), "");
}

TEST(SafetensorsTest, CopiesDataThatIsNotAligned) {
  std::string header = one_tensor("F32", "[1]", "[0,4]");
  while ((header.size() + 8) % 4 != 1) header += ' ';
  const std::string file = safetensors(header, testing::raw(1.5F));
  const auto parameters = read(file);
  ASSERT_TRUE(parameters);
  const std::optional<Tensor> tensor = parameters->read("a");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % 4, 0U);
  float value = 0;
  std::memcpy(&value, tensor->bytes.data(), sizeof value);
  EXPECT_EQ(value, 1.5F);
}

TEST(SafetensorsTest, ATruncatedFileIsAnErrorAtEveryLength) {
  const std::string file = safetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
      "12345678abc");
  ASSERT_TRUE(read(file));
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(read(file.substr(0, length))) << length;
  }
}

TEST(SafetensorsTest, FlippedBitsNeverGiveTensorsOutsideOfTheFile) {
  const std::string file = safetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
      "12345678abc");
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto parameters = read(flipped);
    if (!parameters) {
      EXPECT_EQ(parameters.error().code, ErrorCode::kCorruptFile);
      continue;
    }
    std::size_t total = 0;
    for (const std::string& name : parameters->names()) total += parameters->read(name)->bytes.size();
    EXPECT_LE(total, 11U);
  }
}

TEST(SafetensorsFolderTest, ReadsTheShardsOfAnIndexAndNamesAMissingOne) {
  TemporaryFolder folder;
  folder.write("model-1.safetensors", safetensors(one_tensor("U8", "[1]", "[0,1]"), "1"));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  const auto missing = open_safetensors_folder(folder.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, folder.path().string() +
                                         " is incomplete: model.safetensors.index.json lists model-2.safetensors, "
                                         "which is missing");
  std::string second = one_tensor("U8", "[1]", "[0,1]");
  second.replace(second.find("\"a\""), 3, "\"b\"");
  folder.write("model-2.safetensors", safetensors(second, "2"));
  folder.write("stray.safetensors", "not read");
  const auto whole = open_safetensors_folder(folder.path());
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->parameters.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(whole->files.size(), 2U);
}

TEST(SafetensorsFolderTest, ATensorInTwoShardsIsRefused) {
  TemporaryFolder folder;
  for (const char* name : {"m1.safetensors", "m2.safetensors"}) {
    folder.write(name, safetensors(one_tensor("U8", "[1]", "[0,1]"), "1"));
  }
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"m1.safetensors","b":"m2.safetensors"}})");
  const auto result = open_safetensors_folder(folder.path());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            (folder.path() / "m2.safetensors").string() + ": tensor 'a' is in another file of the model too");
}

TEST(SafetensorsFolderTest, AnIndexMayNotLie) {
  TemporaryFolder folder;
  folder.write("m.safetensors", safetensors(one_tensor("U8", "[1]", "[0,1]"), "1"));
  const std::string index = (folder.path() / "model.safetensors.index.json").string();
  const auto error_with = [&](std::string_view text) {
    folder.write("model.safetensors.index.json", text);
    const auto result = open_safetensors_folder(folder.path());
    return result ? std::string() : result.error().message;
  };
  for (const char* outside : {"../m.safetensors", "/etc/passwd", "..", "sub/m.safetensors", "a\\\\b"}) {
    EXPECT_THAT(error_with(R"({"weight_map":{"a":")" + std::string(outside) + R"("}})"),
                HasSubstr(": 'weight_map' of 'a' points outside of the folder: '"));
  }
  EXPECT_EQ(error_with(R"({"weight_map":{"a":"m.safetensors","c":"m.safetensors"}})"),
            (folder.path() / "m.safetensors").string() +
                " does not hold the tensor 'c' that model.safetensors.index.json places there");
  EXPECT_EQ(error_with("{}"), index + ": expected an object 'weight_map' of tensor names to files");
  EXPECT_EQ(error_with(R"({"weight_map":{"a":1}})"), index + ": 'weight_map' of 'a' is not a string");
  EXPECT_THAT(error_with("{"), HasSubstr(index + ": malformed JSON"));
}

TEST(SafetensorsFolderTest, WithoutAnIndexOneFileIsEnoughAndTwoAreTooMany) {
  TemporaryFolder folder;
  const auto none = open_safetensors_folder(folder.path());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            folder.path().string() + " holds no weights: expected model.safetensors or model.safetensors.index.json");
  folder.write("weights.safetensors", safetensors(one_tensor("U8", "[1]", "[0,1]"), "1"));
  EXPECT_TRUE(open_safetensors_folder(folder.path()));
  folder.write("more.safetensors", "");
  const auto two = open_safetensors_folder(folder.path());
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().message, folder.path().string() +
                                     " holds 2 .safetensors files but no "
                                     "model.safetensors.index.json that says which belong to the "
                                     "model");
}

}  // namespace
}  // namespace redpoll::checkpoint
