// Golden checkpoints written as GGUF files of their architectures: the same logits.
#include <gtest/gtest.h>
#include <mlx/device.h>

#include <cmath>
#include <map>

#include "base/json.h"
#include "checkpoint/gguf/model.h"
#include "unit/checkpoint/builders.h"
#include "unit/models/golden.h"

namespace redpoll::test {
namespace {

using checkpoint::GgufType;
using checkpoint::testing::GgufBuilder;
using checkpoint::testing::raw;
using checkpoint::testing::TemporaryFolder;

using Names = std::map<std::string, std::string>;  // of a layer's parts, Hugging Face's to GGUF's

const Names kCommonNames = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

std::string bytes_of(const mx::array& x) {
  const checkpoint::Tensor tensor = tensor_of(x);
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

std::vector<std::uint64_t> dimensions_of(const mx::array& x) { return {x.shape().rbegin(), x.shape().rend()}; }

/// A golden on its way into a GGUF file, every weight as a float32, which is exact.
class GgufWriter {
 public:
  GgufWriter(const Golden& golden, std::string architecture, const Names& own_names)
      : golden_(golden), architecture_(std::move(architecture)), names_(own_names) {
    names_.insert(kCommonNames.begin(), kCommonNames.end());
    file_.string("general.architecture", architecture_);
    const checkpoint::Config& config = golden.checkpoint.config;
    u32("block_count", config.num_hidden_layers);
    u32("context_length", config.max_position_embeddings);
    u32("embedding_length", config.hidden_size);
    u32("feed_forward_length", config.intermediate_size);
    u32("attention.head_count", config.num_attention_heads);
    u32("attention.head_count_kv", config.num_key_value_heads);
    u32("attention.key_length", config.head_dim);
    u32("attention.value_length", config.head_dim);
    f32("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
    f32("rope.freq_base", config.rope_theta);
    std::vector<std::string> tokens;
    for (int i = 0; i < config.vocab_size; ++i) tokens.push_back("a" + std::to_string(i));
    file_.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", tokens)
        .strings("tokenizer.ggml.merges", {})
        .u32("tokenizer.ggml.eos_token_id", 3);
  }

  void u32(const std::string& key, int value) {
    file_.u32(architecture_ + "." + key, static_cast<std::uint32_t>(value));
  }
  void f32(const std::string& key, double value) { file_.f32(architecture_ + "." + key, static_cast<float>(value)); }
  void text(const std::string& key, const std::string& value) { file_.string(architecture_ + "." + key, value); }
  void floats(const std::string& name, const std::vector<float>& values) {
    add(name, mx::array(values.data(), {static_cast<int>(values.size())}));
  }
  void add(const std::string& name, const mx::array& x) {
    file_.tensor(name, dimensions_of(x), GgufType::kF32, bytes_of(mx::astype(x, mx::float32)));
  }
  /// Weights whose names contain this are small floats and stay so.
  void keep_small_floats(const std::string& part) { kept_ = part; }
  void add_to_norms(float value) { norm_offset_ = value; }

  [[nodiscard]] checkpoint::Checkpoint open() {
    for (const std::string& name : golden_.checkpoint.parameters.names()) write(name);
    const TemporaryFolder folder;  // gone at once: a mapped file needs no name
    auto opened = checkpoint::open_checkpoint(folder.write("m.gguf", file_.build()));
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }

 private:
  [[nodiscard]] mx::array read(const std::string& name) const {
    return array_of(*golden_.checkpoint.parameters.read(name));
  }
  [[nodiscard]] std::string gguf_name(const std::string& name) const {
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) {
      const Names global{{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
      const std::size_t dot = name.rfind('.');
      return global.at(name.substr(0, dot)) + name.substr(dot);
    }
    const std::size_t end = name.find('.', kLayers.size());
    const std::string layer = "blk." + name.substr(kLayers.size(), end - kLayers.size()) + ".";
    const std::string part = name.substr(end + 1);
    if (const auto whole = names_.find(part); whole != names_.end()) return layer + whole->second;
    const std::size_t dot = part.rfind('.');
    return layer + names_.at(part.substr(0, dot)) + part.substr(dot);
  }

  void write(const std::string& name) {
    if (name.ends_with(".scales") || name.ends_with(".biases")) return;
    const std::string module = name.substr(0, name.rfind('.'));
    if (!golden_.checkpoint.parameters.contains(module + ".scales") || !name.ends_with(".weight")) {
      const mx::array values = mx::astype(read(name), mx::float32);
      return add(gguf_name(name), name.ends_with("norm.weight") ? mx::add(values, mx::array(norm_offset_)) : values);
    }
    const auto spec = *golden_.checkpoint.quantization.spec_for(module);
    const mx::array weight = read(name);
    const mx::array scales = read(module + ".scales");
    if (!kept_.empty() && name.contains(kept_)) return write_mxfp4(gguf_name(name), weight, scales);
    std::optional<mx::array> biases;
    if (spec.mode == "affine") biases = mx::astype(read(module + ".biases"), mx::float32);
    const mx::array factors = biases ? mx::astype(scales, mx::float32) : scales;
    add(gguf_name(name),
        mx::dequantize(weight, factors, biases, spec.group_size, spec.bits, spec.mode, std::nullopt, mx::float32));
  }

  /// Blocks of an exponent and 16 bytes, whose low halves are the first 16 weights.
  void write_mxfp4(const std::string& name, const mx::array& weight, const mx::array& scales) {
    const std::string codes = bytes_of(mx::view(weight, mx::uint8));  // two neighbours a byte
    const std::string exponents = bytes_of(scales);
    std::string blocks;
    for (std::size_t block = 0; block < exponents.size(); ++block) {
      blocks += exponents[block];
      const auto code = [&](std::size_t i) {
        const auto byte = static_cast<unsigned char>(codes[block * 16 + i / 2]);
        return i % 2 == 0 ? byte & 15U : static_cast<unsigned>(byte >> 4U);
      };
      for (std::size_t i = 0; i < 16; ++i) blocks += static_cast<char>(code(i) | code(i + 16) << 4U);
    }
    std::vector<std::uint64_t> dimensions = dimensions_of(weight);
    dimensions.front() *= 8;
    file_.tensor(name, dimensions, GgufType::kMxfp4, blocks);
  }

  const Golden& golden_;
  std::string architecture_;
  Names names_;
  GgufBuilder file_;
  std::string kept_;
  float norm_offset_ = 0;
};

void expect_same_logits(const checkpoint::Checkpoint& checkpoint, const Golden& golden) {
  const std::vector<float> got = logits_of(checkpoint, golden.tokens);
  ASSERT_EQ(got.size(), golden.logits.size());
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - golden.logits[i]));
  EXPECT_LT(worst, 4e-5F);  // as GoldenTest allows
}

// The pattern is the test's: GGUF files of Gemma 3 leave it out, and every sixth layer sees all.
TEST(GgufFamiliesTest, Gemma3HasNormsWithOneAddedAndOtherNames) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "compares float32";
  const Golden golden = load_golden("gemma3_text_windows_4bit");
  GgufWriter writer(golden, "gemma3",
                    {{"post_attention_layernorm.weight", "post_attention_norm.weight"},
                     {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
                     {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"}});
  writer.add_to_norms(1);
  writer.u32("attention.sliding_window", *golden.checkpoint.config.sliding_window);
  writer.u32("attention.sliding_window_pattern", golden.checkpoint.config.sliding_window_pattern);
  writer.text("rope.scaling.type", "linear");
  writer.f32("rope.scaling.factor", 8);
  expect_same_logits(writer.open(), golden);
}

// Some converters write for each layer whether it has a window.
TEST(GgufFamiliesTest, Gemma3sWindowsMayBeListed) {
  GgufBuilder file;
  file.string("general.architecture", "gemma3");
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.key_length"}) {
    file.u32(std::string("gemma3.") + key, 3);
  }
  file.f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6F)
      .u32("gemma3.attention.sliding_window", 8)
      .numbers<std::uint8_t>("gemma3.attention.sliding_window_pattern", GgufBuilder::kBool, {1, 0, 1});
  file.tensor("token_embd.weight", {8, 4}, GgufType::kF32, checkpoint::testing::floats(32));
  const std::string bytes = file.build();
  const auto parsed = checkpoint::testing::parse_gguf(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto config = checkpoint::read_gguf_config(*parsed);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->at("layer_types"), *parse_json(R"(["sliding_attention","full_attention","sliding_attention"])"));
}

TEST(GgufFamiliesTest, Qwen3MoeHasStackedExperts) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "compares float32";
  const Golden golden = load_golden("qwen3_moe_4bit");
  const checkpoint::Config& config = golden.checkpoint.config;
  GgufWriter writer(golden, "qwen3moe",
                    {{"mlp.gate", "ffn_gate_inp"},
                     {"mlp.switch_mlp.gate_proj", "ffn_gate_exps"},
                     {"mlp.switch_mlp.up_proj", "ffn_up_exps"},
                     {"mlp.switch_mlp.down_proj", "ffn_down_exps"}});
  writer.u32("expert_count", config.num_experts);
  writer.u32("expert_used_count", config.num_experts_per_tok);
  writer.u32("expert_feed_forward_length", config.moe_intermediate_size);
  expect_same_logits(writer.open(), golden);
}

TEST(GgufFamiliesTest, Phi3HasFusedProjectionsAndFactorsInATensor) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "compares float32";
  const Golden golden = load_golden("phi3_longrope_4bit");
  const json::object& scaling = golden.checkpoint.config.raw.at("rope_scaling").as_object();
  GgufWriter writer(golden, "phi3", {{"self_attn.qkv_proj", "attn_qkv"}, {"mlp.gate_up_proj", "ffn_up"}});
  const auto factors = [&](const char* name) {
    std::vector<float> values;
    for (const json::value& factor : scaling.at(name).as_array()) values.push_back(factor.to_number<float>());
    return values;
  };
  writer.floats("rope_factors_long.weight", factors("long_factor"));
  writer.floats("rope_factors_short.weight", factors("short_factor"));
  writer.u32("rope.scaling.original_context_length",
             golden.checkpoint.config.raw.at("original_max_position_embeddings").to_number<int>());
  writer.u32("rope.dimension_count",
             static_cast<int>(golden.checkpoint.config.head_dim * golden.checkpoint.config.partial_rotary_factor));
  expect_same_logits(writer.open(), golden);
}

TEST(GgufFamiliesTest, GptOssHasSinksAndExpertsInSmallFloats) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "compares float32";
  Golden golden = load_golden("gpt_oss_mxfp4");
  checkpoint::Config& config = golden.checkpoint.config;
  json::object& scaling = config.raw.at("rope_scaling").as_object();
  scaling["truncate"] = false;  // as it is published
  golden.logits = logits_of(golden.checkpoint, golden.tokens);
  GgufWriter writer(golden, "gpt-oss",
                    {{"self_attn.sinks", "attn_sinks.weight"},
                     {"post_attention_layernorm.weight", "post_attention_norm.weight"},
                     {"mlp.router", "ffn_gate_inp"},
                     {"mlp.experts.gate_proj", "ffn_gate_exps"},
                     {"mlp.experts.up_proj", "ffn_up_exps"},
                     {"mlp.experts.down_proj", "ffn_down_exps"}});
  writer.keep_small_floats(".experts.");
  writer.u32("expert_count", config.num_experts);
  writer.u32("expert_used_count", config.num_experts_per_tok);
  writer.u32("expert_feed_forward_length", config.intermediate_size);
  writer.u32("attention.sliding_window", *config.sliding_window);
  writer.text("rope.scaling.type", "yarn");
  writer.f32("rope.scaling.factor", scaling.at("factor").to_number<double>());
  writer.u32("rope.scaling.original_context_length", scaling.at("original_max_position_embeddings").to_number<int>());
  writer.f32("rope.scaling.yarn_beta_fast", scaling.at("beta_fast").to_number<double>());
  expect_same_logits(writer.open(), golden);
}

}  // namespace
}  // namespace redpoll::test
