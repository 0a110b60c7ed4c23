#include "server/sampling.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/server/tiny_tokenizer.h"

namespace redpoll::server {
namespace {

engine::SamplingParams resolve(const api::SamplingOverrides& request, const SamplingDefaults& flags = {},
                               const checkpoint::GenerationDefaults& model = {}) {
  const auto tokenizer = tiny_tokenizer();
  auto params = resolve_sampling(request, flags, model, *tokenizer);
  EXPECT_TRUE(params) << params.error().message;
  return params.value_or(engine::SamplingParams{});
}

TEST(SamplingTest, DefaultsAreTemperature07AndEverythingElseOff) {
  const engine::SamplingParams params = resolve({});
  EXPECT_FLOAT_EQ(params.temperature, 0.7F);
  EXPECT_FLOAT_EQ(params.top_p, 1);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_FLOAT_EQ(params.repetition_penalty, 1);
  EXPECT_FLOAT_EQ(params.dry_multiplier, 0);
  EXPECT_TRUE(params.dry_sequence_breakers.empty());
  EXPECT_FALSE(params.seed);
}

TEST(SamplingTest, RequestWinsOverFlagOverModelOverDefault) {
  api::SamplingOverrides request;
  SamplingDefaults flags;
  checkpoint::GenerationDefaults model;
  model.temperature = 0.3;
  model.top_p = 0.8;
  model.top_k = 40;
  EXPECT_FLOAT_EQ(resolve(request, flags, model).temperature, 0.3F);
  EXPECT_FLOAT_EQ(resolve(request, flags, model).top_p, 0.8F);
  EXPECT_EQ(resolve(request, flags, model).top_k, 40);
  flags.temperature = 0.4;
  flags.top_p = 0.9;
  EXPECT_FLOAT_EQ(resolve(request, flags, model).temperature, 0.4F);
  EXPECT_FLOAT_EQ(resolve(request, flags, model).top_p, 0.9F);
  request.temperature = 0;
  request.top_p = 0.5F;
  request.top_k = 0;
  EXPECT_FLOAT_EQ(resolve(request, flags, model).temperature, 0);
  EXPECT_FLOAT_EQ(resolve(request, flags, model).top_p, 0.5F);
  EXPECT_EQ(resolve(request, flags, model).top_k, 0);
}

TEST(SamplingTest, AModelThatDoesNotSampleIsGreedyUnlessTold) {
  checkpoint::GenerationDefaults model;
  model.do_sample = false;
  model.temperature = 0.6;
  EXPECT_FLOAT_EQ(resolve({}, {}, model).temperature, 0);
  EXPECT_FLOAT_EQ(resolve({}, {.temperature = 0.5, .top_p = {}, .max_tokens = {}}, model).temperature, 0.5F);
}

TEST(SamplingTest, NumbersThatNoSamplerCouldUseAreSkipped) {
  checkpoint::GenerationDefaults model;
  model.temperature = -1;
  model.top_p = std::numeric_limits<double>::quiet_NaN();
  model.top_k = -5;
  model.repetition_penalty = 0;
  const engine::SamplingParams params = resolve({}, {}, model);
  EXPECT_FLOAT_EQ(params.temperature, 0.7F);
  EXPECT_FLOAT_EQ(params.top_p, 1);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_FLOAT_EQ(params.repetition_penalty, 1);
}

TEST(SamplingTest, EverythingElseOfTheRequestIsTakenOver) {
  api::SamplingOverrides request;
  request.min_p = 0.1F;
  request.typical_p = 0.9F;
  request.xtc_probability = 0.5F;
  request.xtc_threshold = 0.2F;
  request.repetition_penalty = 1.1F;
  request.repetition_context_size = 64;
  request.presence_penalty = 0.25F;
  request.frequency_penalty = -0.5F;
  request.logit_bias = {{7, -100.0F}};
  request.seed = 42;
  const engine::SamplingParams params = resolve(request);
  EXPECT_FLOAT_EQ(params.min_p, 0.1F);
  EXPECT_FLOAT_EQ(params.typical_p, 0.9F);
  EXPECT_FLOAT_EQ(params.xtc_probability, 0.5F);
  EXPECT_FLOAT_EQ(params.xtc_threshold, 0.2F);
  EXPECT_EQ(params.xtc_special_tokens, byte_tokens("\n"));
  EXPECT_FLOAT_EQ(params.repetition_penalty, 1.1F);
  EXPECT_EQ(params.repetition_context_size, 64);
  EXPECT_FLOAT_EQ(params.presence_penalty, 0.25F);
  EXPECT_FLOAT_EQ(params.frequency_penalty, -0.5F);
  EXPECT_EQ(params.logit_bias, request.logit_bias);
  EXPECT_EQ(params.seed, 42U);
}

TEST(SamplingTest, DryBreakersAreTokenizedAndHaveDefaults) {
  api::SamplingOverrides request;
  request.dry_multiplier = 0.8F;
  request.dry_base = 2;
  request.dry_allowed_length = 3;
  std::vector<std::vector<TokenId>> breakers = resolve(request).dry_sequence_breakers;
  EXPECT_EQ(breakers, (std::vector<std::vector<TokenId>>{{'\n'}, {':'}, {'"'}, {'*'}}));
  EXPECT_FLOAT_EQ(resolve(request).dry_base, 2);
  EXPECT_EQ(resolve(request).dry_allowed_length, 3);
  request.dry_sequence_breakers = {"ab", ""};
  breakers = resolve(request).dry_sequence_breakers;
  EXPECT_EQ(breakers, (std::vector<std::vector<TokenId>>{{'a', 'b'}}));
}

}  // namespace
}  // namespace redpoll::server
