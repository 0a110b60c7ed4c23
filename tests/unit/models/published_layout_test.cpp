// Checkpoints as their authors publish them, with names and layouts other than MLX's: the same model to the bit.
#include <gmock/gmock.h>
#include <mlx/device.h>

#include <cmath>

#include "unit/models/golden.h"

namespace redpoll::test {
namespace {

using checkpoint::Checkpoint;

/// A copy of the golden's checkpoint without its tensors, and what makes them those of another layout.
class Published {
 public:
  explicit Published(const Golden& golden) : mlx_(golden.checkpoint.parameters) {
    whole_.path = golden.checkpoint.path;
    whole_.config = golden.checkpoint.config;
    whole_.quantization = golden.checkpoint.quantization;
  }

  [[nodiscard]] std::vector<std::string> names() const { return mlx_.names(); }
  [[nodiscard]] mx::array read(const std::string& name) const { return array_of(*mlx_.read(name)); }
  void insert(const std::string& name, const mx::array& values) {
    EXPECT_TRUE(whole_.parameters.insert(name, tensor_of(values))) << name;
  }
  [[nodiscard]] Checkpoint& checkpoint() { return whole_; }

  /// gate_proj and up_proj under `from` become `to`, one after the other along the rows.
  void fuse(const std::string& from, const std::string& to) {
    insert(to + "gate_up_proj", mx::concatenate({read(from + "gate_proj.weight"), read(from + "up_proj.weight")}, 1));
    insert(to + "down_proj", read(from + "down_proj.weight"));
  }

 private:
  const checkpoint::ParameterMap& mlx_;
  Checkpoint whole_;
};

std::string replaced(std::string name, std::string_view what, std::string_view with) {
  const std::size_t at = name.find(what);
  return at == std::string::npos ? name : name.replace(at, what.size(), with);
}

// Other names, norms whose weights lack one, convolutions (channels, 1, size), experts in two tensors.
TEST(PublishedLayoutTest, Qwen35OfItsAuthorsIsTheSame) {
  if (mx::default_device() != mx::Device::cpu) GTEST_SKIP() << "compares float32";
  const Golden golden = load_golden("qwen3_5_moe_bf16");
  Published published(golden);
  for (const std::string& name : published.names()) {
    std::string stored = replaced(name, "language_model.model.", "model.language_model.");
    stored = replaced(stored, "language_model.lm_head", "lm_head");
    mx::array values = published.read(name);
    if (name.ends_with("conv1d.weight")) {
      values = mx::swapaxes(values, 1, 2);
    } else if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) {
      values = mx::subtract(mx::astype(values, mx::float32), mx::array(1.0F));
    }
    if (!name.contains("switch_mlp.")) {
      published.insert(stored, values);
    } else if (name.ends_with("gate_proj.weight")) {
      const std::string from = name.substr(0, name.find("gate_proj"));
      published.fuse(
          from, replaced(replaced(from, "language_model.model.", "model.language_model."), "switch_mlp.", "experts."));
    }
  }
  published.insert("mtp.norm.weight", mx::array({1.0F, 2.0F}));
  const auto got = logits_of(published.checkpoint(), golden.tokens);
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - golden.logits[i]));
  EXPECT_LT(worst, 4e-5F);  // of norms that were made one less
}

TEST(PublishedLayoutTest, Gemma4sExpertsInTwoTensorsAreTheSame) {
  const Golden golden = load_golden("gemma4_experts_bf16");
  Published published(golden);
  for (const std::string& name : published.names()) {
    if (!name.contains("switch_glu.")) {
      published.insert(name, published.read(name));
    } else if (name.ends_with("gate_proj.weight")) {
      const std::string from = name.substr(0, name.find("gate_proj"));
      published.fuse(from, replaced(from, "switch_glu.", ""));
    }
  }
  EXPECT_EQ(logits_of(published.checkpoint(), golden.tokens), logits_of(golden.checkpoint, golden.tokens));
}

/// Rows of both in turns.
mx::array interleaved(const mx::array& a, const mx::array& b) { return mx::flatten(mx::stack({a, b}, 2), 1, 2); }

// Experts' gates and what they gate in turns, small floats as bytes.
TEST(PublishedLayoutTest, GptOssOfItsAuthorsIsTheSame) {
  const Golden golden = load_golden("gpt_oss_mxfp4");
  Published published(golden);
  const auto blocks = [](const mx::array& words) {
    mx::Shape shape = words.shape();
    shape.back() /= 4;
    shape.push_back(16);
    return mx::reshape(mx::view(words, mx::uint8), shape);
  };
  for (const std::string& name : published.names()) {
    const std::size_t experts = name.find("mlp.experts.");
    if (experts == std::string::npos) {
      published.insert(name, published.read(name));
      continue;
    }
    if (!name.ends_with("gate_proj.weight")) continue;
    const std::string prefix = name.substr(0, name.find("gate_proj"));
    const auto both = [&](const std::string& part) {
      return interleaved(published.read(prefix + "gate_proj." + part), published.read(prefix + "up_proj." + part));
    };
    published.insert(prefix + "gate_up_proj_blocks", blocks(both("weight")));
    published.insert(prefix + "gate_up_proj_scales", both("scales"));
    published.insert(prefix + "gate_up_proj_bias", both("bias"));
    published.insert(prefix + "down_proj_blocks", blocks(published.read(prefix + "down_proj.weight")));
    published.insert(prefix + "down_proj_scales", published.read(prefix + "down_proj.scales"));
    published.insert(prefix + "down_proj_bias", published.read(prefix + "down_proj.bias"));
  }
  EXPECT_EQ(logits_of(published.checkpoint(), golden.tokens), logits_of(golden.checkpoint, golden.tokens));
}

// User case 67: gates, convolutions and the rates at which memories fade lose their meaning in a few bits.
TEST(PublishedLayoutTest, RatesThatWereQuantizedAreRefusedByName) {
  const Golden golden = load_golden("qwen3_5_4bit");
  Published published(golden);
  std::string rate;
  for (const std::string& name : published.names()) {
    if (rate.empty() && name.ends_with(".A_log")) {
      rate = name;
      published.insert(name, mx::zeros({4}, mx::uint32));
    } else {
      published.insert(name, published.read(name));
    }
  }
  const auto kernels = kernels::make_kernels({.num_threads = 1});
  const auto model = models::make_model(published.checkpoint(), *kernels);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, testing::HasSubstr(rate + " has type U32, expected F32, F16 or BF16"));
}

TEST(PublishedLayoutTest, ExpertsOfAWrongShapeAreNamed) {
  const Golden golden = load_golden("gemma4_experts_bf16");
  Published published(golden);
  for (const std::string& name : published.names()) {
    if (!name.contains("switch_glu.")) published.insert(name, published.read(name));
  }
  const std::string prefix = "model.layers.0.experts.";
  published.insert(prefix + "gate_up_proj", mx::zeros({2, 3, 4}, mx::bfloat16));
  const auto kernels = kernels::make_kernels({.num_threads = 1});
  const auto model = models::make_model(published.checkpoint(), *kernels);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kCorruptFile);
  EXPECT_THAT(model.error().message, testing::HasSubstr(prefix + "gate_up_proj has shape (2, 3, 4), expected"));
}

}  // namespace
}  // namespace redpoll::test
