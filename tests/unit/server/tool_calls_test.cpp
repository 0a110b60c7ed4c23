// Tool calls from a model's answer to what clients get.
#include <gmock/gmock.h>

#include <set>

#include "server/choice_text.h"
#include "unit/server/app_fixture.h"

namespace redpoll::server {
namespace {

using ::testing::MatchesRegex;

constexpr std::string_view kJsonTools =
    "{% if tools %}<tool_call>{\"name\": NAME, \"arguments\": OBJECT}</tool_call>{% endif %}"
    "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls %}"
    "{{ call.function | tojson }}{% endfor %}{% endfor %}<|start|>";

constexpr std::string_view kNamedTools =
    R"({% if tools %}<function name="NAME"><param name="KEY">VALUE</param></function>{% endif %}<|start|>)";

constexpr std::string_view kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "weather", "parameters":)"
    R"( {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])";

constexpr std::string_view kAnswer =
    "Two calls: <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"days\": 2, \"city\": \"Z\xC3\xBCrich\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";

struct Choice {
  std::string content;
  json::array calls;  // without ids and indexes
  std::vector<std::string> ids;
  std::string finish_reason;
  json::array logprobs;
  json::array token_ids;
};

json::object without_id(const json::value& call, Choice& choice) {
  json::object out = call.as_object();
  choice.ids.emplace_back(out.at("id").as_string());
  out.erase("id");
  out.erase("index");
  return out;
}

void append(json::array& out, const json::object& choice, std::string_view name) {
  const json::value* more = choice.if_contains(name);
  if (more != nullptr && more->is_object()) more = &more->at("content");
  if (more != nullptr && more->is_array()) out.insert(out.end(), more->get_array().begin(), more->get_array().end());
}

std::vector<Choice> whole_choices(const std::string& body) {
  std::vector<Choice> choices;
  const json::object answer = parse(body);
  for (const json::value& value : answer.at("choices").as_array()) {
    const json::object& choice = value.as_object();
    Choice& out = choices.emplace_back();
    const json::object& message = choice.at("message").as_object();
    if (message.at("content").is_string()) out.content = message.at("content").as_string();
    if (const json::value* calls = message.if_contains("tool_calls")) {
      for (const json::value& call : calls->as_array()) out.calls.emplace_back(without_id(call, out));
    }
    out.finish_reason = choice.at("finish_reason").as_string();
    append(out.logprobs, choice, "logprobs");
    append(out.token_ids, choice, "token_ids");
  }
  return choices;
}

std::vector<Choice> streamed_choices(const std::string& body, std::size_t num_choices = 1) {
  std::vector<Choice> choices(num_choices);
  for (const std::string& event : events(body)) {
    if (event == "[DONE]") break;
    const json::object choice = parse(event).at("choices").as_array()[0].as_object();
    Choice& out = choices[static_cast<std::size_t>(choice.at("index").as_int64())];
    const json::object& delta = choice.at("delta").as_object();
    if (const json::value* content = delta.if_contains("content")) out.content += content->as_string();
    if (const json::value* calls = delta.if_contains("tool_calls")) {
      for (const json::value& call : calls->as_array()) {
        EXPECT_EQ(call.at("index").as_int64(), static_cast<std::int64_t>(out.calls.size()));
        out.calls.emplace_back(without_id(call, out));
      }
    }
    if (choice.at("finish_reason").is_string()) out.finish_reason = choice.at("finish_reason").as_string();
    append(out.logprobs, choice, "logprobs");
    append(out.token_ids, choice, "token_ids");
  }
  return choices;
}

class ToolCallsTest : public AppTest {
 protected:
  void serve_tools(std::string_view answer, std::string_view chat_template = kJsonTools) {
    serve(std::string(answer), {.chat_template = chat_template});
  }

  // The choices of the whole answer, which the streamed one must equal.
  std::vector<Choice> ask(const std::string& more) {
    const Reply whole = post(kChat, hello(more));
    EXPECT_EQ(whole.status, 200) << whole.body;
    const std::vector<Choice> choices = whole_choices(whole.body);
    const std::vector<Choice> streamed =
        streamed_choices(post(kChat, hello(more + R"(, "stream": true)")).body, choices.size());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      EXPECT_EQ(streamed[i].content, choices[i].content);
      EXPECT_EQ(streamed[i].calls, choices[i].calls);
      EXPECT_EQ(streamed[i].finish_reason, choices[i].finish_reason);
      EXPECT_EQ(streamed[i].logprobs, choices[i].logprobs);
      EXPECT_EQ(streamed[i].token_ids, choices[i].token_ids);
      for (const std::string& id : streamed[i].ids) ids_.insert(id);
      for (const std::string& id : choices[i].ids) ids_.insert(id);
    }
    return choices;
  }

  std::set<std::string> ids_;  // all that were seen
};

const json::value kZurich = parse_json(R"({"type": "function", "function":
    {"name": "weather", "arguments": "{\"days\":2,\"city\":\"Zürich\"}"}})")
                                .value();
const json::value kNowhere =
    parse_json(R"({"type": "function", "function": {"name": "weather", "arguments": "{}"}})").value();

TEST_F(ToolCallsTest, AreReadFromTheAnswerOfEveryChoice) {
  serve_tools(kAnswer);
  const std::vector<Choice> choices = ask(std::string(kTools) + R"(, "n": 3)");
  ASSERT_EQ(choices.size(), 3U);
  for (const Choice& choice : choices) {
    EXPECT_EQ(choice.content, "Two calls: ");
    EXPECT_EQ(choice.calls, (json::array{kZurich, kNowhere}));
    EXPECT_EQ(choice.finish_reason, "tool_calls");
  }
  EXPECT_EQ(ids_.size(), 12U) << "no id comes twice";
  for (const std::string& id : ids_) EXPECT_THAT(id, MatchesRegex("call_[0-9a-f]+"));
}

TEST_F(ToolCallsTest, AloneLeaveNoContent) {
  serve_tools("\n<tool_call>{\"name\": \"weather\"}</tool_call>\n");
  const Reply reply = post(kChat, hello(kTools));
  const json::value message = parse(reply.body).at("choices").at(0).at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("tool_calls").as_array().size(), 1U);
  EXPECT_EQ(ask(std::string(kTools))[0].calls, json::array{kNowhere});
}

TEST_F(ToolCallsTest, AreTextWhereNoToolsAreShown) {
  serve_tools(kAnswer);
  for (const std::string& more : {std::string(), std::string(kTools) + R"(, "tool_choice": "none")"}) {
    const Choice choice = ask(more)[0];
    EXPECT_EQ(choice.content, kAnswer);
    EXPECT_TRUE(choice.calls.empty());
    EXPECT_EQ(choice.finish_reason, "stop");
  }
}

TEST_F(ToolCallsTest, OfToolsThatAreNotThereAreText) {
  const std::string answer = R"(<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>)";
  serve_tools(answer);
  const Choice choice = ask(std::string(kTools))[0];
  EXPECT_EQ(choice.content, answer);
  EXPECT_TRUE(choice.calls.empty());
  EXPECT_EQ(choice.finish_reason, "stop");
}

TEST_F(ToolCallsTest, CutOffByMaxTokensAreText) {
  serve_tools(kAnswer);
  const Choice cut_off = ask(std::string(kTools) + R"(, "max_tokens": 30)")[0];
  EXPECT_EQ(cut_off.content, kAnswer.substr(0, 30));
  EXPECT_EQ(cut_off.finish_reason, "length");
  const std::size_t length = kAnswer.size() - 5;
  const Choice after_one = ask(std::string(kTools) + R"(, "max_tokens": )" + std::to_string(length))[0];
  EXPECT_EQ(after_one.calls, json::array{kZurich});
  const std::string_view second = kAnswer.substr(kAnswer.rfind("\n<tool_call>"));
  EXPECT_EQ(after_one.content, "Two calls: " + std::string(second.substr(0, second.size() - 5)));
  EXPECT_EQ(after_one.finish_reason, "length") << "it did not stop by itself";
}

TEST_F(ToolCallsTest, OneAtATimeEndsTheAnswerAfterTheFirst) {
  serve_tools(std::string(kAnswer) + std::string(3000, 'a'));
  const Choice choice = ask(std::string(kTools) + R"(, "parallel_tool_calls": false)")[0];
  EXPECT_EQ(choice.content, "Two calls: ");
  EXPECT_EQ(choice.calls, json::array{kZurich});
  EXPECT_EQ(choice.finish_reason, "tool_calls");
  EXPECT_TRUE(becomes_idle(model()));
  EXPECT_LT(model().engine->stats().generated_tokens_total, 1000U) << "the engine was told";
}

TEST_F(ToolCallsTest, KeepTheirTokensAndLogprobs) {
  serve_tools(kAnswer);
  const Choice choice = ask(std::string(kTools) + R"(, "return_token_ids": true, "logprobs": true)")[0];
  EXPECT_EQ(choice.calls.size(), 2U);
  EXPECT_EQ(choice.token_ids.size(), kAnswer.size());
  EXPECT_EQ(choice.logprobs.size(), kAnswer.size());
}

TEST_F(ToolCallsTest, StopStringsAreFoundFirst) {
  serve_tools(kAnswer);
  const Choice choice = ask(std::string(kTools) + R"(, "stop": ["\n<tool_call>"])")[0];
  EXPECT_EQ(choice.calls, json::array{kZurich});
  EXPECT_EQ(choice.finish_reason, "tool_calls");
  const Choice inside = ask(std::string(kTools) + R"(, "stop": ["\"name\""])")[0];
  EXPECT_EQ(inside.content, "Two calls: <tool_call>\n{");
  EXPECT_EQ(inside.finish_reason, "stop");
}

TEST_F(ToolCallsTest, OfTheNamedFormatUseTheSchema) {
  serve_tools(
      "<function name=\"weather\"><param name=\"days\">2</param><param name=\"city\">"
      "<![CDATA[Z\xC3\xBCrich]]></param></function>",
      kNamedTools);
  EXPECT_EQ(ask(std::string(kTools))[0].calls, json::array{kZurich});
}

TEST_F(ToolCallsTest, CanBeSentBack) {
  serve_tools(kAnswer);
  const json::value message = parse(post(kChat, hello(kTools)).body).at("choices").at(0).at("message");
  const json::value tool_message = {
      {"role", "tool"}, {"tool_call_id", message.at("tool_calls").at(0).at("id")}, {"content", " sunny"}};
  const json::object body = {{"messages", {message, tool_message}}};
  const Reply rendered = post("/apply-template", dump_json(body));
  ASSERT_EQ(rendered.status, 200) << rendered.body;
  EXPECT_EQ(parse(rendered.body).at("prompt").as_string(),
            "Two calls: {\"name\": \"weather\", \"arguments\": {\"days\": 2, \"city\": \"Z\xC3\xBCrich\"}}"
            "{\"name\": \"weather\", \"arguments\": {}} sunny<|start|>");
}

// As MiniCPM5 has them: what begins and ends a call are special tokens.
TEST(ToolCallMarkup, OfSpecialTokensIsReadAndOtherSpecialTokensStayHidden) {
  const std::vector<std::string> specials = {"<function", "</function>", "<|other|>"};
  auto tokenizer = tiny_tokenizer({}, specials);
  std::vector<TokenId> answer = byte_tokens("a");
  const TokenId first = kFirstExtraToken;
  answer.insert(answer.end(), {first + 2, first});
  for (const TokenId id : byte_tokens(" name=\"weather\">")) answer.push_back(id);
  answer.push_back(first + 1);

  const auto markup = text::tool_call_markup_ids(text::ToolCallFormat::kNamedTags, *tokenizer);
  const json::array tools = {json::object{{"function", {{"name", "weather"}}}}};
  ChoiceText choice(*tokenizer, text::Detokenizer(*tokenizer, {.starts_text = true, .shown_special_tokens = markup}),
                    {.tool_calls = text::ToolCallOptions{.format = text::ToolCallFormat::kNamedTags,
                                                         .tools = std::make_shared<const text::ToolSchemas>(tools)}});
  api::ChoiceDelta delta;
  for (const TokenId id : answer) EXPECT_FALSE(choice.push({.choice = 0, .id = id, .logprob = 0, .top = {}}, delta));
  choice.finish(delta);
  EXPECT_EQ(delta.text, "a");
  ASSERT_EQ(delta.tool_calls.size(), 1U);
  EXPECT_EQ(delta.tool_calls[0].name, "weather");
}

}  // namespace
}  // namespace redpoll::server
