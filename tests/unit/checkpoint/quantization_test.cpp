#include "checkpoint/quantization.h"

#include <gtest/gtest.h>

namespace redpoll::checkpoint {
namespace {

Result<QuantizationTable> parse(std::string_view text) {
  return QuantizationTable::parse(parse_json(text)->get_object());
}

TEST(QuantizationTest, NoBlockIsAnEmptyTable) {
  const auto table = parse("{}");
  ASSERT_TRUE(table);
  EXPECT_TRUE(table->empty());
  EXPECT_EQ(table->spec_for("model.layers.0.mlp.up_proj"), std::nullopt);
}

TEST(QuantizationTest, ModulesHaveTheDefaultOrTheirOwn) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto table = parse("{\"" + std::string(key) + R"(":{"group_size":32,"bits":4,
        "model.embed_tokens":{"group_size":64,"bits":8},"lm_head":false,"model.layers.1.mlp.up_proj":true}})");
    ASSERT_TRUE(table) << table.error().message;
    EXPECT_EQ(table->default_spec(), (QuantizationSpec{32, 4, "affine"}));
    EXPECT_EQ(table->spec_for("model.layers.0.mlp.up_proj"), (QuantizationSpec{32, 4, "affine"}));
    EXPECT_EQ(table->spec_for("model.layers.1.mlp.up_proj"), (QuantizationSpec{32, 4, "affine"}));
    EXPECT_EQ(table->spec_for("model.embed_tokens"), (QuantizationSpec{64, 8, "affine"}));
    EXPECT_EQ(table->spec_for("lm_head"), std::nullopt);
  }
}

TEST(QuantizationTest, BothPrefixesNameTheSameModule) {
  const auto table = parse(R"({"quantization":{"group_size":64,"bits":4,
      "language_model.model.norm":{"bits":8,"group_size":64},"model.embed_tokens":{"bits":6,"group_size":64}}})");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->spec_for("model.norm")->bits, 8);
  EXPECT_EQ(table->spec_for("language_model.model.norm")->bits, 8);
  EXPECT_EQ(table->spec_for("model.embed_tokens")->bits, 6);
  EXPECT_EQ(table->spec_for("language_model.model.embed_tokens")->bits, 6);
}

TEST(QuantizationTest, ModesBringTheirOwnSizes) {
  const auto table = parse(R"({"quantization":{"mode":"mxfp4","a":{"mode":"nvfp4"},"b":{"mode":"mxfp8"}}})");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->default_spec(), (QuantizationSpec{32, 4, "mxfp4"}));
  EXPECT_EQ(table->spec_for("a"), (QuantizationSpec{16, 4, "nvfp4"}));
  EXPECT_EQ(table->spec_for("b"), (QuantizationSpec{32, 8, "mxfp8"}));
}

TEST(QuantizationTest, SizesThatMlxDoesNotHaveNameTheField) {
  const auto message = [](std::string_view block) {
    const auto table = parse("{\"quantization\":" + std::string(block) + "}");
    return table ? "" : table.error().message;
  };
  EXPECT_EQ(message(R"({"bits":7})"), "'quantization.bits': expected one of 2, 3, 4, 5, 6, 8, got 7");
  EXPECT_EQ(message(R"({"group_size":48})"), "'quantization.group_size': expected one of 16, 32, 64, 128, got 48");
  EXPECT_EQ(message(R"({"group_size":16,"bits":5})"),
            "'quantization.bits': expected one of 2, 4, 6, 8 in groups of 16, got 5");
  EXPECT_EQ(message(R"({"group_size":16,"bits":6})"), "");
  EXPECT_EQ(message(R"({"mode":"q"})"), "'quantization.mode': expected one of affine, mxfp4, mxfp8, nvfp4, got 'q'");
  EXPECT_EQ(message(R"({"mode":"mxfp4","bits":8})"), "'quantization.bits': expected one of 4, got 8");
  EXPECT_EQ(message(R"({"mode":"nvfp4","group_size":32})"), "'quantization.group_size': expected one of 16, got 32");
  EXPECT_EQ(message(R"({"bits":0})"), "'quantization.bits': expected a whole number from 1 to 32, got 0");
  EXPECT_EQ(message(R"({"lm_head":4})"), "'quantization.lm_head': expected an object or a boolean, got number");
  EXPECT_EQ(message(R"({"lm_head":{"bits":9}})"),
            "'quantization.lm_head.bits': expected one of 2, 3, 4, 5, 6, 8, got 9");
  EXPECT_EQ(message("4"), "'quantization': expected an object, got number 4");
}

TEST(QuantizationTest, OtherLibrariesSchemesAreRefusedByName) {
  for (const char* method : {"gptq", "awq", "bitsandbytes", "fp8"}) {
    const auto table = parse(R"({"quantization_config":{"bits":4,"quant_method":")" + std::string(method) + "\"}}");
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(table.error().message, "'quantization_config.quant_method': weights quantized by '" +
                                         std::string(method) +
                                         "' are not supported; convert the original model to MLX or GGUF");
  }
}

}  // namespace
}  // namespace redpoll::checkpoint
