#include "checkpoint/kv_config.h"

#include <gmock/gmock.h>

#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(KvConfigTest, ReadsALayerAnEntry) {
  const TemporaryFolder folder;
  folder.write(
      "kv_config.json",
      R"([{"layer_idx": 3, "bits": 8, "group_size": 64}, {"layer_idx": 0, "bits": 4, "group_size": 32, "kl": 1}])");
  const auto entries = read_kv_config(folder.path());
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ((*entries)[0].layer, 3);
  EXPECT_EQ((*entries)[0].bits, 8);
  EXPECT_EQ((*entries)[0].group_size, 64);
  EXPECT_EQ((*entries)[1].layer, 0);
  EXPECT_EQ((*entries)[1].bits, 4);
  EXPECT_EQ((*entries)[1].group_size, 32);
}

TEST(KvConfigTest, RefusesAllElseByFileAndField) {
  const TemporaryFolder folder;
  for (const auto& [text, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{}", "expected an array of objects, got object"},
           {"[1]", "'[0]': expected an object, got number"},
           {R"([{"bits": 8, "group_size": 64}])", "'[0].layer_idx' is missing"},
           {R"([{"layer_idx": 1, "group_size": 64}])", "'[0].bits' is missing"},
           {R"([{"layer_idx": 1, "bits": 8}])", "'[0].group_size' is missing"},
           {R"([{"layer_idx": 1, "bits": 8, "group_size": 64}, {"layer_idx": 1, "bits": 4, "group_size": 64}])",
            "'[1].layer_idx': layer 1 is listed twice"}}) {
    folder.write("kv_config.json", text);
    const auto entries = read_kv_config(folder.path());
    ASSERT_FALSE(entries) << text;
    EXPECT_EQ(entries.error().code, ErrorCode::kCorruptFile);
    EXPECT_EQ(entries.error().message, (folder.path() / "kv_config.json").string() + ": " + message);
  }
  folder.write("kv_config.json", R"([{"layer_idx": -1, "bits": 8, "group_size": 64}])");
  EXPECT_THAT(read_kv_config(folder.path()).error().message, HasSubstr("[0].layer_idx"));
  folder.write("kv_config.json", R"([{"layer_idx": 1, "bits": "8", "group_size": 64}])");
  EXPECT_THAT(read_kv_config(folder.path()).error().message, HasSubstr("[0].bits"));
  folder.write("kv_config.json", "[");
  EXPECT_THAT(read_kv_config(folder.path()).error().message, HasSubstr("kv_config.json: "));
}

TEST(KvConfigTest, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto none = read_kv_config(folder.path());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("kv_config.json"));
  folder.write("model.gguf", "");
  const auto file = read_kv_config(folder.path() / "model.gguf");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, EndsWith("model.gguf is not a folder"));
}

}  // namespace
}  // namespace redpoll::checkpoint
