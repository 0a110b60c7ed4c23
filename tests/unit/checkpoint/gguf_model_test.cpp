#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <memory>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/half.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/safetensors.h"
#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using testing::floats;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using testing::parse_gguf;
using testing::raw;
using testing::TemporaryFolder;
using testing::tiny_llama;

Result<Checkpoint> open(const GgufBuilder& builder) {
  const TemporaryFolder folder;  // gone at once: a mapped file needs no name
  return open_checkpoint(folder.write("m.gguf", builder.build()));
}

// The message without the folder's name.
std::string message(const GgufBuilder& builder) {
  const auto checkpoint = open(builder);
  if (checkpoint) return "";
  return checkpoint.error().message.substr(checkpoint.error().message.find("m.gguf"));
}

template <typename T>
T element(const Tensor& tensor, std::size_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
  return value;
}

float as_float(const Tensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::kF16: return half_to_float(element<std::uint16_t>(tensor, i));
    case DType::kBF16: return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(tensor, i)} << 16U);
    default: return element<float>(tensor, i);
  }
}

// Element i of a module's weight, by MLX's definition of affine quantization.
float weight_at(const Checkpoint& checkpoint, const std::string& module, std::size_t i) {
  const Tensor weight = checkpoint.parameters.read(module + ".weight").value();
  const std::optional<Tensor> scales = checkpoint.parameters.read(module + ".scales");
  if (!scales) return as_float(weight, i);
  const auto spec = checkpoint.quantization.spec_for(module);
  const auto bits = static_cast<std::size_t>(spec->bits);
  const auto group_size = static_cast<std::size_t>(spec->group_size);
  unsigned q = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const std::size_t at = i * bits + bit;
    q |= (std::to_integer<unsigned>(weight.bytes[at / 8]) >> at % 8 & 1U) << bit;
  }
  const Tensor biases = checkpoint.parameters.read(module + ".biases").value();
  return as_float(*scales, i / group_size) * static_cast<float>(q) + as_float(biases, i / group_size);
}

TEST(GgufModelTest, EveryBlockTypeKeepsItsExactValues) {
  const std::filesystem::path goldens = std::filesystem::path(REDPOLL_TEST_DATA) / "golden/checkpoint";
  const auto checkpoint = open_checkpoint(goldens / "block_types.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ParameterMap expected;
  const auto file = MappedFile::open(goldens / "block_types.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(read_safetensors((*file)->bytes(), *file, "expected", expected));
  ASSERT_EQ(expected.size(), 29U);
  for (const std::string& module : expected.names()) {
    const Tensor values = expected.read(module).value();
    for (std::size_t i = 0; i < values.bytes.size() / sizeof(float); ++i) {
      ASSERT_EQ(weight_at(*checkpoint, module, i), element<float>(values, i)) << module << " " << i;
    }
  }
}

TEST(GgufModelTest, ScalesAreHalvesWhereExactAndFloatsElsewhere) {
  const auto type_of_scales = [](float scale) {
    std::string block(18, '\x21');
    const std::string half = raw(*exact_half(scale));
    GgufBuilder builder = tiny_llama();
    builder.tensor("output.weight", {32, 1}, GgufType::kQ40, block.replace(0, 2, half));
    const std::string bytes = builder.build();
    const auto file = parse_gguf(bytes);
    const auto parameters = read_gguf_parameters(*file, *config_from_json(*read_gguf_config(*file)));
    EXPECT_EQ(as_float(*parameters->read("lm_head.biases"), 0), -8 * scale);
    return parameters->read("lm_head.scales")->dtype;
  };
  EXPECT_EQ(type_of_scales(0.25F), DType::kF16);
  EXPECT_EQ(type_of_scales(-65504.0F), DType::kF32);  // its bias is beyond the largest half
}

TEST(GgufModelTest, OneConvertedTensorIsInMemoryAtATime) {
  GgufBuilder builder = tiny_llama();
  builder.tensor("output.weight", {32, 1}, GgufType::kQ40, std::string(18, '\x21'))
      .tensor("blk.1.ffn_up.weight", {32, 2}, GgufType::kQ80, std::string(68, '\x12'));
  const std::string bytes = builder.build();
  const auto file = parse_gguf(bytes);
  const auto parameters = read_gguf_parameters(*file, *config_from_json(*read_gguf_config(*file)));
  const std::weak_ptr<const void> weight = parameters->read("lm_head.weight")->storage;
  EXPECT_EQ(parameters->read("lm_head.weight")->storage, weight.lock());  // converted once
  EXPECT_EQ(parameters->read("model.layers.1.mlp.up_proj.biases")->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_TRUE(weight.expired());
  EXPECT_EQ(parameters->read("lm_head.weight")->shape, (std::vector<std::int64_t>{1, 4}));  // and again when asked for
}

TEST(GgufModelTest, ALargeTensorIsConvertedInPartsByAnyThread) {
  constexpr std::size_t kRows = 4096;
  constexpr std::size_t kColumns = 256;
  GgufBuilder builder = tiny_llama();
  std::string blocks;
  for (std::size_t block = 0; block < kRows * kColumns / 32; ++block) {
    blocks += raw(*exact_half(static_cast<float>(block % 1000)));
    for (std::size_t i = 0; i < 16; ++i) blocks += static_cast<char>(block * 31 + i * 17);
  }
  builder.tensor("output.weight", {kColumns, kRows}, GgufType::kQ40, blocks);
  const std::string bytes = builder.build();
  const auto file = parse_gguf(bytes);
  const auto parameters = read_gguf_parameters(*file, *config_from_json(*read_gguf_config(*file)));
  std::vector<std::future<Tensor>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::async(std::launch::async, [&] { return *parameters->read("lm_head.weight"); }));
  }
  const Tensor scales = *parameters->read("lm_head.scales");
  ASSERT_EQ(scales.shape, (std::vector<std::int64_t>{kRows, kColumns / 32}));
  for (auto& reader : readers) {
    const Tensor weight = reader.get();
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      const std::size_t block = i / 32;
      const auto byte = static_cast<unsigned char>(block * 31 + i % 16 * 17);
      const unsigned expected = i % 32 < 16 ? byte & 15U : byte >> 4U;
      ASSERT_EQ(std::to_integer<unsigned>(weight.bytes[i / 2]) >> i % 2 * 4 & 15U, expected) << i;
      ASSERT_EQ(as_float(scales, block), static_cast<float>(block % 1000));
    }
  }
}

/// Q4_0 blocks of scale 1, but for one whose bias is beyond the largest half.
std::string blocks_with_one_inexact(std::size_t count, std::size_t inexact) {
  std::string blocks;
  for (std::size_t block = 0; block < count; ++block) {
    blocks += raw(*exact_half(block == inexact ? 65504.0F : 1.0F)) + std::string(16, static_cast<char>(block));
  }
  return blocks;
}

TEST(GgufModelTest, OneInexactScaleInAnyPartMakesAllFloats) {
  constexpr std::size_t kRows = 4096;
  constexpr std::size_t kBlocks = kRows * 8;
  for (const std::size_t inexact : {std::size_t{0}, kBlocks / 2, kBlocks - 1}) {
    GgufBuilder builder = tiny_llama();
    builder.tensor("output.weight", {256, kRows}, GgufType::kQ40, blocks_with_one_inexact(kBlocks, inexact));
    const std::string bytes = builder.build();
    const auto file = parse_gguf(bytes);
    const auto parameters = read_gguf_parameters(*file, *config_from_json(*read_gguf_config(*file)));
    const Tensor biases = parameters->read("lm_head.biases").value();
    ASSERT_EQ(biases.dtype, DType::kF32);
    ASSERT_EQ(parameters->read("lm_head.scales")->dtype, DType::kF32);
    for (std::size_t block = 0; block < kBlocks; ++block) {
      ASSERT_EQ(as_float(biases, block), block == inexact ? -8 * 65504.0F : -8.0F) << block;
    }
  }
}

TEST(GgufModelTest, TensorsReadByManyThreadsStayWhatTheyAre) {
  GgufBuilder builder = tiny_llama();
  for (int layer = 1; layer <= 4; ++layer) {
    builder.tensor("blk." + std::to_string(layer) + ".ffn_up.weight", {256, 2048}, GgufType::kQ40,
                   blocks_with_one_inexact(std::size_t{2048} * 8, static_cast<std::size_t>(layer)));
  }
  const std::string bytes = builder.build();
  const auto file = parse_gguf(bytes);
  const auto parameters = read_gguf_parameters(*file, *config_from_json(*read_gguf_config(*file)));
  const auto read_often = [&parameters](std::size_t layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.up_proj.biases";
    for (std::size_t i = 0; i < 50; ++i) {
      const Tensor biases = parameters->read(name).value();
      ASSERT_EQ(as_float(biases, i % 10), i % 10 == layer ? -8 * 65504.0F : -8.0F) << layer << " " << i;
    }
  };
  std::vector<std::future<void>> readers;
  for (std::size_t layer = 1; layer <= 4; ++layer) readers.push_back(std::async(std::launch::async, read_often, layer));
  for (auto& reader : readers) reader.get();
}

TEST(GgufModelTest, ATinyLlamaBecomesACheckpoint) {
  const auto checkpoint = open(tiny_llama());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->source_format, "gguf");
  EXPECT_EQ(checkpoint->name, "m.gguf");
  EXPECT_EQ(checkpoint->license, "");
  EXPECT_EQ(checkpoint->fingerprint.size(), 64U);
  const Config& config = checkpoint->config;
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.vocab_size, 4);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_TRUE(require_decoder_fields(config));
  EXPECT_TRUE(checkpoint->quantization.empty());
  EXPECT_EQ(checkpoint->parameters.size(), 11U);
  EXPECT_TRUE(checkpoint->parameters.contains("model.layers.0.self_attn.o_proj.weight"));
  EXPECT_EQ(checkpoint->tokenizer.eos_ids, std::vector<TokenId>{3});
}

TEST(GgufModelTest, BiasesAndAHeadOfItsOwnShowInTheConfig) {
  GgufBuilder builder = tiny_llama();
  std::string rows;
  for (int i = 0; i < 8; ++i) rows += raw(static_cast<float>(i));
  builder.tensor("blk.0.attn_q.bias", {8}, GgufType::kF32, rows)
      .tensor("blk.0.ffn_gate.bias", {4}, GgufType::kF32, floats(4))
      .tensor("output.weight", {8, 4}, GgufType::kF32, floats(32));
  const auto checkpoint = open(builder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->config.attention_bias);
  EXPECT_TRUE(checkpoint->config.mlp_bias);
  EXPECT_FALSE(checkpoint->config.tie_word_embeddings);
  EXPECT_TRUE(checkpoint->parameters.contains("lm_head.weight"));
  // Two heads of (2, 2) interleaved rows: 0 1 2 3 is (0, 1), (2, 3), so the halves are 0 2 and 1 3.
  const Tensor bias = *checkpoint->parameters.read("model.layers.0.self_attn.q_proj.bias");
  const float expected[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(element<float>(bias, i), expected[i]);
}

TEST(GgufModelTest, RotaryFactorsMoveIntoTheConfig) {
  GgufBuilder builder = tiny_llama();
  builder.tensor("rope_freqs.weight", {2}, GgufType::kF32, raw(1.0F) + raw(8.0F));
  const auto checkpoint = open(builder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_FALSE(checkpoint->parameters.contains("rope_freqs.weight"));
  const auto rope = parse_rope_scaling(checkpoint->config);
  ASSERT_TRUE(rope) << rope.error().message;
  EXPECT_EQ(rope->type, RopeScaling::Type::kFactors);
  EXPECT_EQ(rope->frequency_factors, (std::vector<double>{1, 8}));

  GgufBuilder ones = tiny_llama();
  ones.tensor("rope_freqs.weight", {2}, GgufType::kF32, floats(2, 1));
  EXPECT_EQ(parse_rope_scaling(open(ones)->config)->type, RopeScaling::Type::kDefault);
  GgufBuilder wrong = tiny_llama();
  wrong.tensor("rope_freqs.weight", {2, 1}, GgufType::kF32, floats(2, 1));
  EXPECT_EQ(message(wrong), "m.gguf: 'rope_freqs.weight' must be a vector of F32");
  builder.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2);
  EXPECT_EQ(message(builder), "m.gguf: both 'llama.rope.scaling.type' and 'rope_freqs.weight' are set");
}

TEST(GgufModelTest, RotaryScalingKeepsItsTypeForWhoeverUsesIt) {
  GgufBuilder linear = tiny_llama();
  linear.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2.5F);
  EXPECT_EQ(parse_rope_scaling(open(linear)->config)->factor, 2.5);
  GgufBuilder old = tiny_llama();
  old.f32("llama.rope.scale_linear", 4);
  EXPECT_EQ(parse_rope_scaling(open(old)->config)->factor, 4);
  GgufBuilder yarn = tiny_llama();
  yarn.string("llama.rope.scaling.type", "yarn");
  EXPECT_EQ(parse_rope_scaling(open(yarn)->config).error().message, "'rope_scaling.factor' is missing");
  yarn.f32("llama.rope.scaling.factor", 4).u32("llama.rope.scaling.original_context_length", 512);
  yarn.f32("llama.rope.scaling.yarn_beta_fast", 16);
  const auto scaling = parse_rope_scaling(open(yarn)->config);
  ASSERT_TRUE(scaling) << scaling.error().message;
  EXPECT_EQ(scaling->type, RopeScaling::Type::kYarn);
  EXPECT_EQ(scaling->original_max_position_embeddings, 512);
  EXPECT_EQ(scaling->beta_fast, 16);
  EXPECT_EQ(scaling->beta_slow, 1);
  GgufBuilder spiral = tiny_llama();
  spiral.string("llama.rope.scaling.type", "spiral");
  EXPECT_THAT(parse_rope_scaling(open(spiral)->config).error().message,
              HasSubstr("rope type 'spiral' is not supported"));
  GgufBuilder none = tiny_llama();
  none.string("llama.rope.scaling.type", "none");
  EXPECT_EQ(parse_rope_scaling(open(none)->config)->type, RopeScaling::Type::kDefault);
}

TEST(GgufModelTest, WhatIsNotUnderstoodIsRefusedByName) {
  EXPECT_EQ(message(GgufBuilder()), "m.gguf: metadata 'general.architecture' is missing");
  EXPECT_EQ(message(GgufBuilder().string("general.architecture", "rwkv6")),
            "m.gguf: the architecture 'rwkv6' is not supported; known are gemma3, gpt-oss, llama, phi3, qwen2, qwen3, "
            "qwen3moe");
  EXPECT_EQ(message(GgufBuilder().string("general.architecture", "llama")),
            "m.gguf: metadata 'llama.embedding_length' is missing");
  EXPECT_EQ(message(tiny_llama().u32("llama.rope.dimension_count", 2)),
            "m.gguf: 'llama.rope.dimension_count' is 2; other than the head size 4 is not supported");
  EXPECT_EQ(message(tiny_llama().u32("llama.attention.value_length", 8)),
            "m.gguf: 'llama.attention.value_length' is 8; other than the head size 4 is not supported");
  EXPECT_EQ(message(tiny_llama().u32("llama.expert_count", 8)),
            "m.gguf: mixture-of-experts models ('llama.expert_count') are not supported");
  EXPECT_EQ(message(tiny_llama().tensor("blk.0.ssm_a", {1}, GgufType::kF32, floats(1))),
            "m.gguf: tensor 'blk.0.ssm_a' is not known for the architecture 'llama'");
  EXPECT_EQ(message(tiny_llama().tensor_at("output.weight", {256, 4}, 16, 0)),
            "m.gguf: tensor 'output.weight' has the type IQ2_XXS, which is not supported; known are F32, F16, BF16, "
            "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and MXFP4");
  EXPECT_THAT(message(tiny_llama().tensor_at("output.weight", {256, 4}, 77, 0)), HasSubstr("has the type type 77"));
  EXPECT_EQ(message(tiny_llama().tensor("blk.0.attn_v.bias", {32}, GgufType::kQ80, std::string(34, 'q'))),
            "m.gguf: tensor 'blk.0.attn_v.bias' has the quantized type Q8_0 but is not a matrix");
}

TEST(GgufModelTest, SizesThatContradictEachOtherAreErrors) {
  const auto changed = [](std::string_view key, std::uint32_t number) {
    std::string edited = tiny_llama().build();
    const std::size_t at = edited.find(key) + key.size() + 4;
    edited.replace(at, 4, raw(number));
    const TemporaryFolder folder;
    const auto checkpoint = open_checkpoint(folder.write("m.gguf", edited));
    return checkpoint ? std::string() : checkpoint.error().message.substr(checkpoint.error().message.find("m.gguf"));
  };
  EXPECT_EQ(changed("llama.attention.head_count_kv", 3),
            "m.gguf: 'num_key_value_heads': 3 does not divide num_attention_heads 2");
  EXPECT_EQ(changed("llama.block_count", 0),
            "m.gguf: 'num_hidden_layers': expected a whole number from 1 to 16384, got 0");
  EXPECT_EQ(changed("llama.embedding_length", 0xFFFFFFFF),
            "m.gguf: metadata 'llama.embedding_length': expected a whole number from 0 to 2147483648, got 4294967295");
  EXPECT_EQ(message(GgufBuilder(tiny_llama()).tensor("blk.1.attn_q.weight", {8, 6}, GgufType::kF32, floats(48))),
            "m.gguf: tensor 'blk.1.attn_q.weight' has 6 rows, which 2 heads of even size do not fill");
}

TEST(GgufModelTest, TheSameParameterUnderTwoSpellingsIsRefused) {
  EXPECT_EQ(message(tiny_llama().tensor("blk.00.attn_norm.weight", {8}, GgufType::kF32, floats(8))),
            "m.gguf: tensor 'blk.00.attn_norm.weight' is not known for the architecture 'llama'");
}

TEST(GgufModelTest, FlippedHeaderBitsNeverCrash) {
  const std::string bytes = tiny_llama().build();
  int opened = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto file = parse_gguf(flipped);
    if (!file) continue;
    const auto raw_config = read_gguf_config(*file);
    if (!raw_config) continue;
    const auto config = config_from_json(*raw_config);
    if (!config) continue;
    opened += read_gguf_parameters(*file, *config).has_value() ? 1 : 0;
  }
  EXPECT_GT(opened, 0);  // flips in the data change no structure
}

}  // namespace
}  // namespace redpoll::checkpoint
