#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <cmath>

namespace redpoll::checkpoint {
namespace {

constexpr std::string_view kLlama = R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,
  "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,"vocab_size":100,
  "rms_norm_eps":1e-5,"max_position_embeddings":2048,"rope_theta":500000.0,"eos_token_id":[7,8],"bos_token_id":1,
  "sliding_window":null,"tie_word_embeddings":false,"attention_bias":true,"mlp_bias":true,"custom":{"x":1}})";

// kLlama with one field replaced, or added.
std::string with(std::string_view field, std::string_view value) {
  json::object object = parse_json(kLlama)->get_object();
  object[field] = parse_json(value).value();
  return dump_json(object);
}

std::string message(const std::string& text) {
  const auto config = parse_config(text);
  return config ? "" : config.error().message;
}

TEST(ConfigTest, ReadsTheFieldsOfALlama) {
  const auto config = parse_config(kLlama);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->model_type, "llama");
  EXPECT_EQ(config->architectures, std::vector<std::string>{"LlamaForCausalLM"});
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->num_hidden_layers, 2);
  EXPECT_EQ(config->num_key_value_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->intermediate_size, 96);
  EXPECT_EQ(config->vocab_size, 100);
  EXPECT_EQ(config->rms_norm_eps, 1e-5);
  EXPECT_EQ(config->max_position_embeddings, 2048);
  EXPECT_EQ(config->rope_theta, 500000);
  EXPECT_EQ(config->hidden_act, "silu");
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->mlp_bias);
  EXPECT_EQ(config->sliding_window, std::nullopt);
  EXPECT_FALSE(config->use_sliding_window);
  EXPECT_EQ(config->eos_token_ids, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_EQ(config->raw.at("custom").at("x").as_int64(), 1);
  EXPECT_TRUE(require_decoder_fields(*config));
}

TEST(ConfigTest, DefaultsFollowFromOtherFields) {
  const auto config = parse_config(R"({"model_type":"m","hidden_size":60,"num_attention_heads":5})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->num_key_value_heads, 5);
  EXPECT_EQ(config->head_dim, 12);
  EXPECT_EQ(config->rope_theta, 10000);
  EXPECT_TRUE(config->eos_token_ids.empty());
  EXPECT_TRUE(parse_config(with("sliding_window", "4096"))->use_sliding_window);
  json::object object = parse_json(with("sliding_window", "4096"))->get_object();
  object["use_sliding_window"] = false;
  EXPECT_FALSE(config_from_json(object)->use_sliding_window);
}

TEST(ConfigTest, EosIsANumberOrAListAndMinusOneIsNone) {
  EXPECT_EQ(parse_config(with("eos_token_id", "5"))->eos_token_ids, std::vector<TokenId>{5});
  EXPECT_TRUE(parse_config(with("eos_token_id", "-1"))->eos_token_ids.empty());
  EXPECT_EQ(parse_config(with("pad_token_id", "-1"))->pad_token_id, std::nullopt);
  EXPECT_EQ(message(with("eos_token_id", "\"</s>\"")), "'eos_token_id': expected a whole number, got string \"</s>\"");
  EXPECT_EQ(message(with("eos_token_id", "[1,-2]")),
            "'eos_token_id': expected a whole number from -1 to 67108864, got -2");
}

TEST(ConfigTest, ReadsWhatFamiliesAdd) {
  const auto config = parse_config(
      R"({"model_type":"m","hidden_act":"silu","hidden_activation":"gelu_pytorch_tanh","query_pre_attn_scalar":256,
      "attn_logit_softcapping":null,"final_logit_softcapping":30.0,"sliding_window":512,"sliding_window_pattern":6,
      "rope_local_base_freq":1e4,"no_rope_layers":[1,0],"logits_scaling":8.0,"attention_multiplier":0.0078125})");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->hidden_act, "gelu_pytorch_tanh");
  EXPECT_EQ(config->query_pre_attn_scalar, 256);
  EXPECT_EQ(config->attn_logit_softcapping, 0);
  EXPECT_EQ(config->final_logit_softcapping, 30);
  EXPECT_EQ(config->sliding_window, 512);
  EXPECT_EQ(config->sliding_window_pattern, 6);
  EXPECT_EQ(config->rope_local_base_freq, 1e4);
  EXPECT_EQ(config->no_rope_layers, (std::vector<int>{1, 0}));
  EXPECT_EQ(config->logits_scaling, 8);
  EXPECT_EQ(config->attention_multiplier, 0.0078125);
  EXPECT_EQ(config->residual_multiplier, 1);
}

TEST(ConfigTest, HostileNumbersNameTheField) {
  const std::string_view sizes[] = {"hidden_size",
                                    "num_hidden_layers",
                                    "num_attention_heads",
                                    "num_key_value_heads",
                                    "head_dim",
                                    "intermediate_size",
                                    "vocab_size",
                                    "max_position_embeddings",
                                    "sliding_window",
                                    "sliding_window_pattern",
                                    "no_rope_layer_interval"};
  for (const std::string_view field : sizes) {
    for (const std::string_view value : {"0", "-1", "1.5", "1e300", "18446744073709551615", "true", "\"64\"", "[]"}) {
      const auto config = parse_config(with(field, value));
      ASSERT_FALSE(config) << field << " " << value;
      EXPECT_EQ(config.error().param, field) << value;
      EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
    }
  }
  for (const std::string_view field :
       {"rms_norm_eps", "rope_theta", "partial_rotary_factor", "rope_local_base_freq", "query_pre_attn_scalar",
        "attn_logit_softcapping", "final_logit_softcapping", "attention_multiplier", "embedding_multiplier",
        "residual_multiplier", "logits_scaling"}) {
    for (const std::string_view value : {"0", "-1", "1e300", "\"1\"", "{}"}) {
      const auto config = parse_config(with(field, value));
      ASSERT_FALSE(config) << field << " " << value;
      EXPECT_EQ(config.error().param, field) << value;
    }
  }
  EXPECT_EQ(message(with("hidden_size", "-3")), "'hidden_size': expected a whole number from 1 to 1048576, got -3");
  EXPECT_NE(message(R"({"model_type":"m","rms_norm_eps":NaN})"), "");
}

TEST(ConfigTest, HeadsMustDivide) {
  EXPECT_EQ(message(with("num_key_value_heads", "3")),
            "'num_key_value_heads': 3 does not divide num_attention_heads 4");
  EXPECT_EQ(message(R"({"model_type":"m","hidden_size":64,"num_attention_heads":5})"),
            "'num_attention_heads': 5 does not divide hidden_size 64 and there is no head_dim");
  EXPECT_EQ(message(R"({"model_type":"m","hidden_size":64,"num_attention_heads":5,"head_dim":16})"), "");
}

TEST(ConfigTest, AllHeadsTogetherHaveALimit) {
  const auto heads = [](int num_heads, int head_dim) {
    return R"({"model_type":"m","num_attention_heads":)" + std::to_string(num_heads) + R"(,"head_dim":)" +
           std::to_string(head_dim) + "}";
  };
  EXPECT_EQ(message(heads(65536, 256)), "");
  EXPECT_EQ(message(heads(65536, 65536)),
            "'head_dim': 65536 for each of 65536 heads makes 4294967296, expected at most 16777216");
}

TEST(ConfigTest, WrongTypesAndMissingTypeAreErrors) {
  EXPECT_EQ(message("[]"), "expected an object, got array");
  EXPECT_EQ(message("{}"), "'model_type' is missing");
  EXPECT_EQ(message(R"({"model_type":7})"), "'model_type': expected a string, got number 7");
  EXPECT_EQ(message(with("tie_word_embeddings", "1")), "'tie_word_embeddings': expected a boolean, got number 1");
  EXPECT_EQ(message(with("layer_types", "[1]")),
            "'layer_types': expected an array of strings, one element is of type number");
  EXPECT_EQ(message(with("no_rope_layers", "[1,2]")),
            "'no_rope_layers': expected an array of whole numbers from 0 to 1, got 2");
  EXPECT_EQ(message(with("no_rope_layers", "[true]")),
            "'no_rope_layers': expected an array of whole numbers from 0 to 1, got true");
  EXPECT_EQ(message(with("rope_parameters", "3")), "'rope_parameters': expected an object, got number 3");
}

TEST(ConfigTest, CodeInAModelFolderIsIgnored) {
  const auto config = parse_config(
      R"({"model_type":"m","model_file":"evil.py","auto_map":{"AutoModel":"evil.Model"},"trust_remote_code":true})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->model_type, "m");
}

TEST(ConfigTest, ADecoderNeedsItsFields) {
  for (const std::string_view field :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size", "rms_norm_eps"}) {
    json::object object = parse_json(kLlama)->get_object();
    object.erase(field);
    if (field == "num_attention_heads") object.erase("num_key_value_heads");
    const auto config = config_from_json(object);
    ASSERT_TRUE(config) << config.error().message;
    const Status status = require_decoder_fields(*config);
    ASSERT_FALSE(status) << field;
    EXPECT_EQ(status.error().message,
              "config.json: '" + std::string(field) + "' is missing, which a model_type 'llama' needs");
    EXPECT_EQ(status.error().param, field);
  }
}

Result<RopeScaling> rope(std::string_view field, std::string_view value) {
  ASSIGN_OR_RETURN(const Config config, parse_config(with(field, value)));
  return parse_rope_scaling(config);
}

TEST(ConfigTest, TheTextPartOfAModelOfTextAndMoreComesFirst) {
  const auto config =
      parse_config(R"({"model_type": "gemma3", "hidden_size": 5, "vocab_size": 7, "eos_token_id": [1, 106],
                                       "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "eos_token_id": 1,
                                                       "pad_token_id": 3}})");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->model_type, "gemma3");
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->vocab_size, 7);
  EXPECT_EQ(config->eos_token_ids, (std::vector<TokenId>{1, 106})) << "what ends an answer is the whole's";
  EXPECT_EQ(config->pad_token_id, 3);
}

TEST(ConfigTest, SizesThatNoIntegerHoldsAreErrors) {
  const auto param_of = [](const std::string& fields) {
    const auto config =
        parse_config(R"({"model_type": "llama", "num_hidden_layers": 16384, "num_attention_heads": 65536,
                                         "head_dim": 8, )" +
                     fields + "}");
    EXPECT_FALSE(config) << fields;
    return config ? "" : config.error().param;
  };
  EXPECT_EQ(param_of(R"("global_head_dim": 1048576)"), "global_head_dim");
  EXPECT_EQ(param_of(R"("hidden_size_per_layer_input": 1048576)"), "hidden_size_per_layer_input");
  EXPECT_EQ(param_of(R"("linear_num_key_heads": 65536, "linear_key_head_dim": 4096)"), "linear_key_head_dim");
  EXPECT_EQ(param_of(R"("linear_num_value_heads": 65536, "linear_value_head_dim": 4096)"), "linear_value_head_dim");
  EXPECT_EQ(param_of(R"("num_global_key_value_heads": 3)"), "num_global_key_value_heads");
}

TEST(RopeScalingTest, ReadsOldAndNewShapes) {
  EXPECT_EQ(rope("x", "1")->type, RopeScaling::Type::kDefault);
  EXPECT_EQ(rope("rope_scaling", "null")->type, RopeScaling::Type::kDefault);
  EXPECT_EQ(rope("rope_scaling", R"({"type":"linear","factor":4.0})")->factor, 4);
  const auto llama3 = rope("rope_scaling", R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.5,
      "high_freq_factor":4.5,"original_max_position_embeddings":4096})");
  ASSERT_TRUE(llama3);
  EXPECT_EQ(llama3->type, RopeScaling::Type::kLlama3);
  EXPECT_EQ(llama3->factor, 8);
  EXPECT_EQ(llama3->low_freq_factor, 1.5);
  EXPECT_EQ(llama3->high_freq_factor, 4.5);
  EXPECT_EQ(llama3->original_max_position_embeddings, 4096);
  EXPECT_EQ(rope("rope_parameters", R"({"rope_type":"default","rope_theta":1e6})")->type, RopeScaling::Type::kDefault);
  EXPECT_EQ(rope("rope_parameters", R"({"rope_theta":1e6})")->type, RopeScaling::Type::kDefault);
  EXPECT_EQ(parse_config(with("rope_parameters", R"({"rope_theta":1e6})"))->rope_theta, 1e6);
}

TEST(RopeScalingTest, LongropeHasAFactorForEachFrequencyAndAScale) {
  const std::string factors = R"("short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,1,2,2,4,4,8,8])";
  const auto scaling =
      rope("rope_scaling", R"({"type":"longrope","original_max_position_embeddings":512,)" + factors + "}");
  ASSERT_TRUE(scaling) << scaling.error().message;
  EXPECT_EQ(scaling->type, RopeScaling::Type::kFactors);
  EXPECT_EQ(scaling->frequency_factors, (std::vector<double>{1, 1, 2, 2, 4, 4, 8, 8}));
  EXPECT_DOUBLE_EQ(scaling->scale, std::sqrt(1 + std::log(4) / std::log(512)));  // 2,048 positions are four times 512
  EXPECT_EQ(rope("rope_scaling", R"({"type":"su","long_mscale":1.5,)" + factors + "}")->scale, 1.5);
  EXPECT_EQ(rope("rope_scaling", "{\"type\":\"su\"," + factors + "}")->scale, 1);  // of 4,096, as it is then
  EXPECT_EQ(rope("rope_scaling", R"({"type":"longrope"})").error().message, "'rope_scaling.long_factor' is missing");
  EXPECT_EQ(rope("rope_scaling", R"({"type":"longrope","long_factor":[1]})").error().param, "rope_scaling.long_factor");
}

TEST(RopeScalingTest, FactorsOfAGgufFileAreOnePerFrequency) {
  EXPECT_EQ(rope("rope_freq_factors", "[1,1,2,2,4,4,8,8]")->frequency_factors,
            (std::vector<double>{1, 1, 2, 2, 4, 4, 8, 8}));
  EXPECT_EQ(rope("rope_freq_factors", "[1]").error().message,
            "'rope_freq_factors': expected an array of 8 numbers, one for each pair of a head that is rotated");
  EXPECT_EQ(rope("rope_freq_factors", "[1,1,2,2,4,4,8,0]").error().message,
            "'rope_freq_factors': expected numbers from 1e-6 to 1e6");
}

TEST(RopeScalingTest, WhatIsNotUnderstoodIsRefused) {
  const auto spiral = rope("rope_scaling", R"({"rope_type":"spiral","factor":4.0})");
  ASSERT_FALSE(spiral);
  EXPECT_EQ(spiral.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(spiral.error().message,
            "'rope_scaling.rope_type': rope type 'spiral' is not supported for model_type 'llama'; known are default, "
            "linear, llama3, longrope and yarn");
  EXPECT_EQ(rope("rope_scaling", R"({"factor":4.0})").error().message, "'rope_scaling.rope_type' is missing");
  EXPECT_EQ(rope("rope_scaling", R"({"type":"linear"})").error().message, "'rope_scaling.factor' is missing");
  EXPECT_EQ(rope("rope_scaling", R"({"type":"linear","factor":0})").error().param, "rope_scaling.factor");
  EXPECT_EQ(rope("rope_scaling", R"({"type":"llama3","factor":8,"low_freq_factor":4.0,"high_freq_factor":4.0})")
                .error()
                .message,
            "'rope_scaling.high_freq_factor' must be greater than low_freq_factor");
  EXPECT_EQ(rope("rope_parameters", R"({"full_attention":{"rope_type":"default"}})").error().message,
            "'rope_parameters': parameters by layer type ('full_attention') are not supported");
}

}  // namespace
}  // namespace redpoll::checkpoint
