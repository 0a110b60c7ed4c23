#include "server/prepare.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/server/tiny_tokenizer.h"

namespace redpoll::server {
namespace {

constexpr std::string_view kTemplate =
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

ServedModel make_model(std::string_view chat_template = kTemplate) {
  ServedModel model;
  model.id = "tiny";
  model.tokenizer = tiny_tokenizer();
  if (!chat_template.empty()) {
    auto compiled = text::ChatTemplate::compile(chat_template);
    EXPECT_TRUE(compiled) << compiled.error().message;
    model.chat_template = *compiled;
  }
  return model;
}

api::ChatRequest hello() {
  api::ChatRequest request;
  request.conversation.messages.push_back(json::object{{"role", "user"}, {"content", "hello"}});
  return request;
}

TEST(PrepareTest, ChatIsRenderedAndTokenizedWithoutFurtherSpecialTokens) {
  const auto prepared = prepare_chat(make_model(), {}, hello());
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_EQ(prepared->prompts.size(), 1U);
  EXPECT_EQ(prepared->prompts[0].ids, byte_tokens("[user]hello[assistant]"));
  EXPECT_FALSE(prepared->continues_prompt);
}

TEST(PrepareTest, MaxTokensComesFromRequestThenFlagThenModelThenContext) {
  ServedModel model = make_model();
  api::ChatRequest request = hello();
  EXPECT_EQ(prepare_chat(model, {}, request)->max_tokens, std::numeric_limits<int>::max());
  model.generation.max_new_tokens = 300;
  EXPECT_EQ(prepare_chat(model, {}, request)->max_tokens, 300);
  SamplingDefaults flags;
  flags.max_tokens = 200;
  EXPECT_EQ(prepare_chat(model, flags, request)->max_tokens, 200);
  request.options.max_tokens = 100;
  EXPECT_EQ(prepare_chat(model, flags, request)->max_tokens, 100);
}

TEST(PrepareTest, CompletionsDefaultToSixteenTokens) {
  api::CompletionRequest request;
  request.prompts.emplace_back("ab");
  EXPECT_EQ(prepare_completion(make_model(), {}, request)->max_tokens, 16);
}

TEST(PrepareTest, ModelWithoutATemplateSaysWhereToGo) {
  const auto prepared = prepare_chat(make_model(""), {}, hello());
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prepared.error().message,
            "model 'tiny' has no chat template: send the whole prompt to /v1/completions instead");
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(PrepareTest, ToolsThatTheTemplateWouldDropAreRefused) {
  api::ChatRequest request = hello();
  request.conversation.tools.push_back(json::object{{"type", "function"}});
  const auto prepared = prepare_chat(make_model(), {}, request);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(prepared.error().message, "model 'tiny' cannot be shown tools: its chat template has no place for them");
  EXPECT_EQ(prepared.error().param, "tools");
  EXPECT_TRUE(prepare_chat(make_model("{% if tools %}{{ tools | tojson }}{% endif %}"), {}, request));
}

TEST(PrepareTest, WhatTheTemplateRefusesIsTheClientsFault) {
  const auto prepared = prepare_chat(make_model("{{ raise_exception('no tools here') }}"), {}, hello());
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(prepared.error().message.find("no tools here"), std::string::npos) << prepared.error().message;
}

TEST(PrepareTest, CompletionPromptsAreTextOrTokenIds) {
  api::CompletionRequest request;
  request.prompts.emplace_back("ab");
  request.prompts.emplace_back(std::vector<TokenId>{'c', kEndToken});
  request.echo = true;
  const auto prepared = prepare_completion(make_model(), {}, request);
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_EQ(prepared->prompts.size(), 2U);
  EXPECT_EQ(prepared->prompts[0].ids, byte_tokens("ab"));
  EXPECT_EQ(prepared->prompts[0].echo_text, "ab");
  EXPECT_EQ(prepared->prompts[1].ids, (std::vector<TokenId>{'c', kEndToken}));
  EXPECT_EQ(prepared->prompts[1].echo_text, "c<|end|>");
  EXPECT_TRUE(prepared->continues_prompt);
}

}  // namespace
}  // namespace redpoll::server
