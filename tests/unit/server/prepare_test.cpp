#include "server/prepare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "unit/server/tiny_tokenizer.h"
#include "unit/text/golden.h"

namespace redpoll::server {
namespace {

constexpr std::string_view kTemplate =
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

ServedModel make_model(std::string_view chat_template = kTemplate) {
  ServedModel model;
  model.id = "tiny";
  model.context = {.tokens = 1000, .model_tokens = 4000, .is_set = true};
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

// What is left of messages, and how many lines were left out, with patterns for `nonce=1` and the like.
std::pair<std::string, int> without_nonces(const std::string& messages,
                                           std::optional<std::size_t> first_system_part = std::nullopt) {
  api::Conversation conversation;
  conversation.messages = parse_json(messages)->as_array();
  conversation.first_system_part = first_system_part;
  const text::VolatileLines lines{.given = {text::LinePattern::parse("nonce=[0-9]+").value()}};
  const int num_lines = leave_out_volatile_lines(lines, conversation);
  return {dump_json(conversation.messages), num_lines};
}

TEST(PrepareTest, VolatileLinesAreLeftOutOfTheFirstSystemMessageAlone) {
  const std::string others = R"({"role":"user","content":"nonce=3\nhi"},{"role":"system","content":"nonce=4\nhm"}])";
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":"nonce=1\nnonce=2\nbe brief\nnonce=5"},)" + others),
            std::pair(R"([{"role":"system","content":"be brief\nnonce=5"},)" + others, 2));
  EXPECT_EQ(without_nonces(R"([{"role":"user","content":"nonce=1"},{"role":"system","content":"nonce=2\nx"}])"),
            std::pair(std::string(R"([{"role":"user","content":"nonce=1"},{"role":"system","content":"x"}])"), 1));
  for (const std::string& same : {R"([{"role":"system","content":"be brief"},)" + others,
                                  std::string(R"([{"role":"user","content":"nonce=1\nhi"}])"), std::string("[]")}) {
    EXPECT_EQ(without_nonces(same), std::pair(same, 0));
  }
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":"nonce=1"}])").first, R"([{"role":"system","content":""}])")
      << "there must be a message";
}

TEST(PrepareTest, ASystemMessageOfVolatileLinesAloneIsNotThere) {
  const std::string others = R"({"role":"user","content":"hi"},{"role":"system","content":"nonce=4\nhm"}])";
  for (const char* lines : {"nonce=1", "nonce=1\\n", "nonce=1\\r\\nnonce=2\\n"}) {
    EXPECT_EQ(without_nonces(R"([{"role":"system","content":")" + std::string(lines) + R"("},)" + others).first,
              "[" + others)
        << lines;
  }
  EXPECT_EQ(without_nonces(R"([{"role":"user","content":"hi"},{"role":"system","content":"nonce=1"}])"),
            std::pair(std::string(R"([{"role":"user","content":"hi"}])"), 1));
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":"nonce=1"},)" + others, 7).first, "[" + others);
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":"nonce=1\n\n"},)" + others).first,
            R"([{"role":"system","content":"\n"},)" + others)
      << "an empty line is a line";
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":""},)" + others).first,
            R"([{"role":"system","content":""},)" + others)
      << "it was sent so";
}

TEST(PrepareTest, APartOfASystemMessageEndsItsLastLine) {
  const std::string joined = R"([{"role":"system","content":"nonce=12be brief"}])";
  EXPECT_EQ(without_nonces(joined), std::pair(joined, 0));
  EXPECT_EQ(without_nonces(joined, 8), std::pair(std::string(R"([{"role":"system","content":"be brief"}])"), 1));
  EXPECT_EQ(without_nonces(joined, 7), std::pair(std::string(R"([{"role":"system","content":"2be brief"}])"), 1));
  EXPECT_EQ(without_nonces(R"([{"role":"system","content":"nonce=1nonce=2\nx"}])", 7).first,
            R"([{"role":"system","content":"nonce=2\nx"}])")
      << "only the first part has them";
}

TEST(PrepareTest, TheStablePartEndsWhereTheFirstMessageBegins) {
  ServedModel model = make_model();
  api::ChatRequest request = hello();
  const auto stable = [&] { return prepare_chat(model, {}, request)->prompts[0].num_stable_tokens; };
  request.conversation.messages.insert(request.conversation.messages.begin(),
                                       json::object{{"role", "system"}, {"content", "be brief"}});
  EXPECT_EQ(stable(), 0) << "caches that can go back need no hint";
  model.can_go_back = false;
  const int length = static_cast<int>(std::string_view("[system]be brief[user]").size());
  EXPECT_EQ(stable(), length);
  request.conversation.messages[1].as_object()["content"] = "a";  // what the other rendering says
  EXPECT_EQ(stable(), length);
  request.conversation.messages.push_back(json::object{{"role", "assistant"}, {"content", "hm"}});
  EXPECT_EQ(stable(), length);
  request.conversation.messages.erase(request.conversation.messages.begin());
  EXPECT_EQ(stable(), 0) << "no system message";
}

TEST(PrepareTest, ATemplateThatRefusesTheStablePartAloneGivesNone) {
  ServedModel model = make_model(
      "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
      "{% if messages | length == 2 %}{{ raise_exception('too short') }}{% endif %}");
  model.can_go_back = false;
  api::ChatRequest request;
  for (const char* role : {"system", "user", "assistant"}) {
    request.conversation.messages.push_back(json::object{{"role", role}, {"content", "x"}});
  }
  EXPECT_EQ(prepare_chat(model, {}, request)->prompts[0].num_stable_tokens, 0);
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

constexpr std::string_view kToolTemplate =
    R"({% if tools %}<tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>{% endif %}hello)";

api::ChatRequest hello_with_tool() {
  api::ChatRequest request = hello();
  request.conversation.tools.push_back(json::object{{"type", "function"}, {"function", {{"name", "now"}}}});
  return request;
}

TEST(PrepareTest, CallsAreReadWhereToolsAreShownInAKnownFormat) {
  const ServedModel model = make_model(kToolTemplate);
  const auto prepared = prepare_chat(model, {}, hello_with_tool());
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_TRUE(prepared->tool_calls);
  EXPECT_EQ(prepared->tool_calls->format, text::ToolCallFormat::kJson);
  EXPECT_TRUE(prepared->tool_calls->tools->contains("now"));
  EXPECT_GT(prepared->tool_calls->max_calls, 1000);
  EXPECT_FALSE(prepare_chat(model, {}, hello())->tool_calls) << "no tools are shown";
  EXPECT_FALSE(prepare_chat(make_model("{{ tools }}"), {}, hello_with_tool())->tool_calls) << "nor is a format";
}

TEST(PrepareTest, OneCallAtATimeNeedsCallsThatCanBeRead) {
  api::ChatRequest request = hello_with_tool();
  request.conversation.parallel_tool_calls = false;
  EXPECT_EQ(prepare_chat(make_model(kToolTemplate), {}, request)->tool_calls->max_calls, 1);
  const auto prepared = prepare_chat(make_model("{{ tools }}"), {}, request);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(prepared.error().param, "parallel_tool_calls");
  EXPECT_EQ(
      prepared.error().message,
      "'parallel_tool_calls': false needs a model whose tool calls can be read; the chat template of 'tiny' shows "
      "none of the known formats");
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

api::ChatRequest with_tools_of_types(const std::vector<const char*>& types) {
  api::ChatRequest request = hello();
  for (const char* type : types) {
    const std::string name = "f" + std::to_string(request.conversation.tools.size());
    request.conversation.tools.push_back(
        json::object{{"type", "function"}, {"function", {{"name", name}, {"parameters", {{"type", type}}}}}});
  }
  return request;
}

TEST(PrepareTest, TheToolThatATemplateFailsAtIsNamed) {
  const ServedModel raises = make_model(
      "{% for tool in tools or [] %}{% if tool.function.parameters.type != 'object' %}"
      "{{ raise_exception('what is that?') }}{% endif %}{% endfor %}");
  const ServedModel fails = make_model(
      "{% for tool in tools or [] %}{% if tool.function.parameters.type != 'object' %}"
      "{{ tool.function.nothing.at_all }}{% endif %}{% endfor %}");
  for (const std::size_t bad : {0, 1, 2, 3, 4}) {
    std::vector<const char*> types(5, "object");
    types[bad] = "string";
    types.back() = "string";
    const api::ChatRequest request = with_tools_of_types(types);
    const std::string index = std::to_string(bad);
    for (const ServedModel* model : {&raises, &fails}) {
      const auto prepared = prepare_chat(*model, {}, request);
      ASSERT_FALSE(prepared);
      EXPECT_EQ(prepared.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(prepared.error().param, "tools[" + index + "]");
      EXPECT_TRUE(prepared.error().message.starts_with("'tools[" + index + "]', 'f" + index + "': "))
          << prepared.error().message;
    }
    EXPECT_TRUE(prepare_chat(raises, {}, request).error().message.ends_with(": what is that?"));
  }
  EXPECT_TRUE(prepare_chat(fails, {}, with_tools_of_types({"object", "object"})));
}

TEST(PrepareTest, AToolIsNamedByWhatTheTemplateMakesOfItAlone) {
  // Two tools are fine whatever they are, one or more are not: what fails with fewer need not fail with more.
  const ServedModel model = make_model(
      "{% for tool in tools or [] %}{% if tool.function.parameters.type != 'object' and tools | length != 2 %}"
      "{{ raise_exception('what is that?') }}{% endif %}{% endfor %}");
  const auto prepared = prepare_chat(model, {}, with_tools_of_types({"object", "string", "object", "string"}));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().param, "tools[1]");
}

TEST(PrepareTest, WhatATemplateFailsAtInTheMessagesIsNoToolsFault) {
  const ServedModel model = make_model(
      "{% if tools and messages[-1].content == 'hello' %}{{ raise_exception('not with tools') }}{% endif %}"
      "{{ messages[-1].content }}");
  api::ChatRequest request = with_tools_of_types({"object", "object"});
  request.conversation.messages = {json::object{{"role", "user"}, {"content", "hello"}}};
  const auto prepared = prepare_chat(model, {}, request);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().message, "not with tools");
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(PrepareTest, WhatATemplateFailsAtWithoutToolsIsNotTheirFault) {
  const auto prepared = prepare_chat(make_model("{% if tools %}{% endif %}{{ raise_exception('no') }}"), {},
                                     with_tools_of_types({"object"}));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().message, "no");
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(PrepareTest, CompletionPromptsAreTextOrTokenIds) {
  api::CompletionRequest request;
  request.prompts.emplace_back("ab");
  request.prompts.emplace_back(std::vector<TokenId>{'c', kEndToken});
  request.echo = true;
  request.options.num_top_logprobs = 0;
  const auto prepared = prepare_completion(make_model(), {}, request);
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_EQ(prepared->prompts.size(), 2U);
  EXPECT_EQ(prepared->prompts[0].ids, byte_tokens("ab"));
  EXPECT_EQ(prepared->prompts[0].echo_text, "ab");
  EXPECT_EQ(prepared->prompts[1].ids, (std::vector<TokenId>{'c', kEndToken}));
  EXPECT_EQ(prepared->prompts[0].echo_begins, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(prepared->prompts[1].echo_text, "c<|end|>");
  EXPECT_EQ(prepared->prompts[1].echo_begins, (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(prepared->continues_prompt);
}

TEST(PrepareTest, AnEchoWithoutLogprobsHasTheSameTokens) {
  api::CompletionRequest request;
  request.prompts.emplace_back("\xC3\xA9<|end|>x");
  request.echo = true;
  const auto plain = prepare_completion(make_model(), {}, request);
  request.options.num_top_logprobs = 0;
  const auto scored = prepare_completion(make_model(), {}, request);
  ASSERT_TRUE(plain && scored);
  EXPECT_EQ(plain->prompts[0].ids, scored->prompts[0].ids);
  EXPECT_EQ(plain->prompts[0].echo_text, scored->prompts[0].echo_text);
}

TEST(PrepareTest, TheBeginningOfATextIsThereOnce) {  // user case 15
  ServedModel model = make_model();
  model.tokenizer = text::golden_tokenizer("sentencepiece_bpe");  // adds <s> by itself where it is asked to
  model.chat_template = text::ChatTemplate::compile("<s>{{ messages[0].content }}").value();
  const TokenId bos = model.tokenizer->token_to_id("<s>").value();
  api::CompletionRequest completion;
  completion.prompts.emplace_back("hello");
  for (const auto& prepared : {prepare_chat(model, {}, hello()), prepare_completion(model, {}, completion)}) {
    ASSERT_TRUE(prepared) << prepared.error().message;
    const std::vector<TokenId>& ids = prepared->prompts[0].ids;
    EXPECT_EQ(ids.front(), bos);
    EXPECT_EQ(std::ranges::count(ids, bos), 1);
  }
}

TEST(PrepareTest, OffsetsOfAnEchoCountCharacters) {
  api::CompletionRequest request;
  request.prompts.emplace_back("\xC3\xA9<|end|>x");
  request.prompts.emplace_back(std::vector<TokenId>{kStartToken, 0xE2, 0x82, 0xAC, 'x', kFirstExtraToken});
  request.echo = true;
  request.options.num_top_logprobs = 0;
  ServedModel model = make_model();
  model.tokenizer = tiny_tokenizer({"yy"});
  const auto prepared = prepare_completion(model, {}, request);
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_EQ(prepared->prompts[0].echo_begins, (std::vector<std::size_t>{0, 0, 1, 8}));
  EXPECT_EQ(prepared->prompts[1].echo_text, "<|start|>\xE2\x82\xACxyy");
  EXPECT_EQ(prepared->prompts[1].echo_begins, (std::vector<std::size_t>{0, 9, 9, 9, 10, 11}));
}

// The longest token has nine bytes, "<|start|>"; how many tokens there are is never counted.
TEST(PrepareTest, TextThatCannotFitIsRefusedUntokenized) {  // user case 62
  // NOLINTNEXTLINE(bugprone-string-constructor): as long as it is meant to be
  const std::string text(10'000'000, 'x');
  const std::string expected = "this model's context is 1000 tokens, but the prompt has at least 1111112; shorten it";
  api::CompletionRequest completion;
  completion.prompts.emplace_back(text);
  api::ChatRequest chat = hello();
  chat.conversation.messages[0].as_object()["content"] = text;
  const auto first = prepare_completion(make_model(), {}, completion);
  const auto second = prepare_chat(make_model("{{ messages[0].content }}"), {}, chat);
  for (const auto* prepared : {&first, &second}) {
    ASSERT_FALSE(*prepared);
    EXPECT_EQ(prepared->error().code, ErrorCode::kContextLengthExceeded);
    EXPECT_EQ(prepared->error().message, expected);
  }
}

TEST(PrepareTest, ALongerContextIsAdvisedWhereItWouldHelp) {
  api::CompletionRequest request;
  request.prompts.emplace_back(std::string(18'000, 'x'));  // at least 2,000 tokens of the 4,000 that the model can take
  const auto prepared = prepare_completion(make_model(), {}, request);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(
      prepared.error().message,
      "this model's context is 1000 tokens, but the prompt has at least 2000; shorten it or raise --context-length");
}

}  // namespace
}  // namespace redpoll::server
