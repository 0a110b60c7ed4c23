// What the families make of configs that ask for what they cannot do: an error that names the field.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "models/registry.h"

namespace redpoll::models {
namespace {

using testing::ElementsAre;

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

TEST(FamilyConfigTest, LayerTypesThatCannotBeHadAreRefused) {
  const std::string full = "full_attention";
  const std::string sliding = "sliding_attention";
  const auto error_with = [](const std::string& golden, const std::vector<std::string>& types) {
    return error_of(golden, [&](auto& config) { config.layer_types = types; });
  };
  EXPECT_EQ(error_with("gemma3_text_windows_4bit", {sliding, "chunked_attention", sliding, full}).message,
            "the model's config: 'layer_types' has 'chunked_attention' at 1; expected 'full_attention' or "
            "'sliding_attention'");
  EXPECT_EQ(error_with("gemma2_capped", {sliding, full}).message,
            "the model's config: 'layer_types' has 'sliding_attention' at 0, and there is no sliding_window");
  EXPECT_EQ(error_with("llama_bias_llama3_rope", {sliding, full}).param, "layer_types");
  EXPECT_EQ(error_with("qwen2_f16", {full, "chunked_attention"}).param, "layer_types");
  EXPECT_EQ(error_with("qwen2_f16", {full}).message,
            "the model's config: 'layer_types' has 1 entries, expected 2, one for each layer");
}

TEST(FamilyConfigTest, LayerTypesSayWhichLayersHaveAWindow) {
  const auto windows_of = [](const char* golden, const std::vector<std::string>& types) {
    auto opened = checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden/models" / golden);
    EXPECT_TRUE(opened);
    opened->config.layer_types = types;
    opened->config.sliding_window = 16;
    const auto kernels = kernels::make_kernels({.num_threads = 1});
    std::vector<int> windows;
    const auto model = make_model(*opened, *kernels);
    for (const cache::LayerCache& layer : (*model)->info().layers) {
      windows.push_back(layer.window);
    }
    return windows;
  };
  const std::string full = "full_attention";
  const std::string sliding = "sliding_attention";
  EXPECT_THAT(windows_of("gemma3_text_windows_4bit", {}), ElementsAre(16, 16, 0, 16));
  EXPECT_THAT(windows_of("gemma3_text_windows_4bit", {full, sliding, sliding, full}), ElementsAre(0, 16, 16, 0));
  EXPECT_THAT(windows_of("qwen2_f16", {full, full}), ElementsAre(0, 0)) << "use_sliding_window is false";
}

TEST(FamilyConfigTest, Gemma4SaysWhatItLacks) {
  const auto error_with = [](const std::function<void(checkpoint::Config&)>& change) {
    return error_of("gemma4_shared_4bit", change).message;
  };
  EXPECT_EQ(error_with([](auto& config) { config.sliding_window.reset(); }),
            "the model's config: 'sliding_window' is missing");
  for (const int shared : {3, 4, 99}) {  // of four layers, of two kinds in turns
    EXPECT_EQ(error_with([&](auto& config) { config.num_kv_shared_layers = shared; }),
              "the model's config: 'num_kv_shared_layers' leaves a kind of layers without any that has K and V");
  }
  EXPECT_EQ(error_with([](auto& config) {
              config.raw["rope_parameters"].as_object()["full_attention"].as_object()["rope_type"] = "spiral";
            }),
            "'rope_parameters.full_attention.rope_type': rope type 'spiral' is not supported for model_type "
            "'gemma4_text'; known are default and proportional");
  EXPECT_EQ(error_with([](auto& config) { config.raw["rope_parameters"].as_object().erase("sliding_attention"); }),
            "'rope_parameters.sliding_attention' is missing");
}

TEST(FamilyConfigTest, Gemma4RefusesWhatItWouldComputeWrongly) {
  EXPECT_EQ(error_of("gemma4_shared_4bit", [](auto& config) { config.hidden_act = "silu"; }).param,
            "hidden_activation");
  EXPECT_EQ(error_of("gemma4_shared_4bit", [](auto& config) { config.vocab_size_per_layer_input = 10; }).param,
            "vocab_size_per_layer_input");
}

TEST(FamilyConfigTest, GptOssHasOneClamp) {
  EXPECT_EQ(error_of("gpt_oss_mxfp4", [](auto& config) { config.swiglu_limit = 8; }).param, "swiglu_limit");
}

TEST(FamilyConfigTest, FamiliesHaveDefaultsOfTheirOwn) {
  const auto completed = [](const char* model_type) {
    checkpoint::Config config = *checkpoint::parse_config(std::string(R"({"model_type": ")") + model_type + R"("})");
    std::ranges::find(families(), std::string_view(model_type), &Family::model_type)->complete(config);
    return config;
  };
  EXPECT_EQ(completed("qwen3_5").partial_rotary_factor, 0.25);
  EXPECT_EQ(completed("qwen3_5_text").rope_theta, 1e5);
  EXPECT_EQ(completed("lfm2").rope_theta, 1e6);
  EXPECT_EQ(completed("gpt_oss").rope_theta, 150'000);
  const checkpoint::Config gemma3 = completed("gemma3");
  EXPECT_EQ(gemma3.num_attention_heads, 8);
  EXPECT_EQ(gemma3.num_key_value_heads, 4);
  EXPECT_EQ(gemma3.head_dim, 256);
  EXPECT_EQ(gemma3.rope_theta, 1e6);
  EXPECT_EQ(gemma3.sliding_window, 4096);
  const auto given = checkpoint::parse_config(
      R"({"model_type": "qwen3_5", "rope_parameters": {"rope_theta": 77, "partial_rotary_factor": 0.5}})");
  checkpoint::Config kept = *given;
  complete_qwen3_5(kept);
  EXPECT_EQ(kept.rope_theta, 77);
  EXPECT_EQ(kept.partial_rotary_factor, 0.5);
}

TEST(FamilyConfigTest, LayersThatReadOthersKAndVKeepNone) {
  auto opened =
      checkpoint::open_checkpoint(std::filesystem::path(REDPOLL_TEST_DATA) / "golden/models/gemma4_shared_4bit");
  ASSERT_TRUE(opened);
  const auto kernels = kernels::make_kernels({.num_threads = 1});
  const auto model = make_model(*opened, *kernels);
  ASSERT_TRUE(model) << model.error().message;
  std::vector<cache::CacheKind> kinds;
  for (const cache::LayerCache& layer : (*model)->info().layers) kinds.push_back(layer.kind);
  using enum cache::CacheKind;
  EXPECT_THAT(kinds, ElementsAre(kAttention, kAttention, kNone, kNone));
}

TEST(FamilyConfigTest, ExpertsAreCounted) {
  const auto error_with = [](const std::function<void(checkpoint::Config&)>& change) {
    return error_of("qwen3_moe_4bit", change).message;
  };
  EXPECT_EQ(error_with([](auto& config) { config.num_experts = 0; }),
            "the model's config: 'num_experts' is missing, which a model_type 'qwen3_moe' needs");
  EXPECT_EQ(error_with([](auto& config) { config.num_experts_per_tok = 0; }),
            "the model's config: 'num_experts_per_tok' is missing, which a model_type 'qwen3_moe' needs");
  EXPECT_EQ(error_with([](auto& config) { config.moe_intermediate_size = 0; }),
            "the model's config: 'moe_intermediate_size' is missing, which a model_type 'qwen3_moe' needs");
  EXPECT_EQ(error_with([](auto& config) { config.num_experts_per_tok = 7; }),
            "the model's config: 'num_experts_per_tok': expected at most 6, which is num_experts, got 7");
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
