// What the families make of configs that ask for what they cannot do: an error that names the field.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "models/registry.h"

namespace redpoll::models {
namespace {

/// The error of a golden checkpoint's model after a change of its config.
Error error_of(const std::string& golden, const std::function<void(checkpoint::Config&)>& change) {
  auto opened = checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden/models" / golden);
  EXPECT_TRUE(opened) << opened.error().message;
  change(opened->config);
  const auto kernels = kernels::make_kernels({.num_threads = 1});
  const auto model = make_model(*opened, *kernels);
  EXPECT_FALSE(model) << "expected an error";
  return model ? Error{} : model.error();
}

TEST(FamilyConfigTest, GemmaNeedsItsActivation) {
  for (const char* golden : {"gemma2_capped", "gemma3_text_windows_4bit"}) {
    const Error error = error_of(golden, [](auto& config) { config.hidden_act = "gelu"; });
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.param, "hidden_activation");
  }
}

TEST(FamilyConfigTest, Gemma3NeedsAWindow) {
  const Error error = error_of("gemma3_text_windows_4bit", [](auto& config) { config.sliding_window.reset(); });
  EXPECT_EQ(error.message, "the model's config: 'sliding_window' is missing");
}

TEST(FamilyConfigTest, SmolLM3SaysOfEachLayerWhetherItRotates) {
  const Error error = error_of("smollm3_4bit", [](auto& config) { config.no_rope_layers = {1, 0}; });
  EXPECT_EQ(error.message, "the model's config: 'no_rope_layers' has 2 entries, expected 4, one for each layer");
}

TEST(FamilyConfigTest, OtherFamiliesRotateWholeHeads) {
  for (const char* golden : {"qwen3_4bit_two_shards", "gemma2_capped", "granite_4bit", "olmo2_bf16"}) {
    const Error error = error_of(golden, [](auto& config) { config.partial_rotary_factor = 0.5; });
    EXPECT_EQ(error.param, "partial_rotary_factor") << golden;
  }
}

TEST(FamilyConfigTest, MistralAndPhi3TakeAWindow) {
  for (const char* golden : {"mistral_f32", "phi3_f16"}) {
    auto opened = checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden/models" / golden);
    ASSERT_TRUE(opened);
    opened->config.sliding_window = 16;
    opened->config.use_sliding_window = true;
    const auto kernels = kernels::make_kernels({.num_threads = 1});
    EXPECT_TRUE(make_model(*opened, *kernels)) << golden;
  }
}

TEST(FamilyConfigTest, LayerTypesThatSayOtherwiseAreRefused) {
  const std::string full = "full_attention";
  const std::string sliding = "sliding_attention";
  const auto error_with = [](const std::string& golden, const std::vector<std::string>& types) {
    return error_of(golden, [&](auto& config) { config.layer_types = types; });
  };
  EXPECT_EQ(error_with("gemma3_text_windows_4bit", {sliding, full, sliding, full}).message,
            "the model's config: 'layer_types' has 'full_attention' at 1, where model_type 'gemma3_text' is supported "
            "with 'sliding_attention' only");
  EXPECT_EQ(error_with("gemma2_capped", {sliding, full}).param, "layer_types");  // it has no window
  EXPECT_EQ(error_with("llama_bias_llama3_rope", {sliding, full}).param, "layer_types");
  EXPECT_EQ(error_with("qwen2_f16", {full, "chunked_attention"}).param, "layer_types");
  EXPECT_EQ(error_with("qwen2_f16", {full}).message,
            "the model's config: 'layer_types' has 1 entries, expected 2, one for each layer");
}

TEST(FamilyConfigTest, LayerTypesThatSayTheSameAreTaken) {
  const auto loads = [](const char* golden, const std::vector<std::string>& types) {
    auto opened = checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden/models" / golden);
    EXPECT_TRUE(opened);
    opened->config.layer_types = types;
    const auto kernels = kernels::make_kernels({.num_threads = 1});
    return make_model(*opened, *kernels).has_value();
  };
  EXPECT_TRUE(loads("gemma3_text_windows_4bit",
                    {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention"}));
  EXPECT_TRUE(loads("qwen2_f16", {"full_attention", "full_attention"}));
}

TEST(FamilyConfigTest, FamiliesWithoutWindowsRefuseThem) {
  for (const char* golden : {"llama_bias_llama3_rope", "qwen2_f16", "granite_4bit", "olmo2_bf16", "smollm3_4bit"}) {
    const Error error = error_of(golden, [](auto& config) {
      config.sliding_window = 16;
      config.use_sliding_window = true;
    });
    EXPECT_EQ(error.param, "sliding_window") << golden;
  }
}

}  // namespace
}  // namespace redpoll::models
