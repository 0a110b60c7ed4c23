// Messages and tools of chat requests: how templates get them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai/chat.h"
#include "base/json.h"
#include "unit/api/bad_input.h"

namespace redpoll::api::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr RequestLimits kLimits{.max_choices = 8, .max_prompts = 4, .vocab_size = 100};

Result<ChatRequest> parse(const json::value& body) { return parse_chat_request(body, kLimits); }

// A request whose messages are fine, with more fields.
std::string with(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
}

ChatRequest parsed(const std::string& text) {
  auto request = parse(body_of(text));
  EXPECT_TRUE(request.has_value()) << text << ": " << (request ? "" : request.error().message);
  return request ? *std::move(request) : ChatRequest{};
}

std::string messages_of(const std::string& messages) {
  return dump_json(parsed(R"({"messages":)" + messages + "}").conversation.messages);
}

void expect_all_refused(const std::vector<BadInput>& rows) {
  for (const BadInput& row : rows) expect_refused(row, parse);
}

TEST(ChatMessages, DeveloperIsSystem) {
  EXPECT_EQ(messages_of(R"([{"role":"developer","content":"be brief"}])"),
            R"([{"role":"system","content":"be brief"}])");
}

TEST(ChatMessages, TextPartsAreJoined) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}])"),
            R"([{"role":"user","content":"a b"}])");
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[]}])"), R"([{"role":"user","content":""}])");
}

TEST(ChatMessages, WhereTheFirstPartOfTheSystemsTextEndsIsKept) {
  const auto part_of = [](const std::string& messages) {
    return parsed(R"({"messages":[{"role":"user","content":[{"type":"text","text":"abcdef"}]},)" + messages + "]}")
        .conversation.first_system_part;
  };
  const std::string parts = R"("content":[{"type":"text","text":"\u00e4b"},{"type":"text","text":"c"}]})";
  EXPECT_EQ(part_of(R"({"role":"system",)" + parts), 3U);
  EXPECT_EQ(part_of(R"({"role":"developer",)" + parts), 3U);
  EXPECT_EQ(part_of(R"({"role":"system","content":"be brief"},{"role":"system",)" + parts), std::nullopt);
  EXPECT_EQ(part_of(R"({"role":"system","content":[]})"), std::nullopt);
  EXPECT_EQ(part_of(R"({"role":"user",)" + parts), std::nullopt);
}

TEST(ChatMessages, ToolCallArgumentsBecomeObjectsInTheirKeyOrder) {
  EXPECT_EQ(
      messages_of(R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":
                {"name":"f","arguments":"{\"z\":1,\"a\":[2.5,null]}"}}]},
                {"role":"tool","tool_call_id":"c1","content":"42"}])"),
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":)"
      R"({"name":"f","arguments":{"z":1,"a":[2.5,null]}}}]},{"role":"tool","tool_call_id":"c1","content":"42"}])");
}

TEST(ChatMessages, MissingOrEmptyArgumentsAreAnEmptyObject) {
  for (const std::string arguments : {R"(,"arguments":"")", R"(,"arguments":{})", ""}) {
    EXPECT_EQ(
        messages_of(R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f")" + arguments + "}}]}]"),
        R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}},"type":"function"}],)"
        R"("content":""}])");
  }
}

TEST(ChatMessages, NullFieldsAndEmptyToolCallsAreGone) {
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":"x","refusal":null,"audio":null,"function_call":null,
                "tool_calls":[]},{"role":"user","name":"bob","content":"y","tool_calls":null}])"),
            R"([{"role":"assistant","content":"x"},{"role":"user","name":"bob","content":"y"}])");
}

TEST(ChatMessages, FieldsThatTemplatesMayReadAreKept) {
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":"x","reasoning_content":"because"}])"),
            R"([{"role":"assistant","content":"x","reasoning_content":"because"}])");
}

TEST(ChatMessages, UnknownFieldsInsideAreNamedByTheirPath) {
  EXPECT_THAT(
      parsed(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"weight":1},
                {"role":"assistant","content":null,"annotations":[],"refusal":null,"tool_calls":[{"id":"c","index":0,
                 "signature":"s","function":{"name":"f","arguments":"{}","parsed":{}}}]},
                {"role":"tool","tool_call_id":"c","name":"f","content":"1"}],
                "tools":[{"type":"function","defer":true,"function":{"name":"f","examples":[]}}]})")
          .warnings,
      ElementsAre("messages[0].weight", "messages[0].content[0].cache_control", "messages[1].tool_calls[0].signature",
                  "messages[1].tool_calls[0].function.parsed", "tools[0].defer", "tools[0].function.examples"));
}

TEST(ChatTools, ToolsKeepTheirKeyOrder) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"z":{"type":"string"},"a":1}}}])";
  EXPECT_EQ(dump_json(parsed(with(R"("tools":)" + tools)).conversation.tools), tools);
  EXPECT_EQ(dump_json(parsed(with(R"("tool_choice":"auto","tools":)" + tools)).conversation.tools), tools);
}

TEST(ChatTools, AMissingTypeIsFilledIn) {
  EXPECT_EQ(dump_json(parsed(with(R"("tools":[{"function":{"name":"f"}}])")).conversation.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])");
}

// "Omitting `parameters` defines a function with an empty parameter list", says OpenAI's reference.
TEST(ChatTools, AFunctionWithoutParametersHasAnEmptyListOfThem) {
  const auto function_of = [](const std::string& fields) {
    const auto request = parsed(with(R"("tools":[{"type":"function","function":{"name":"f")" + fields + "}}]"));
    return dump_json(request.conversation.tools.at(0).at("function"));
  };
  const std::string filled = R"({"name":"f","parameters":{"type":"object","properties":{}})";
  for (const std::string none :
       {"", R"(,"parameters":null)", R"(,"parameters":{})", R"(,"parameters":{"type":"object"})",
        R"(,"parameters":{"type":"object","properties":{}})"}) {
    EXPECT_EQ(function_of(none), filled + "}") << none;
  }
  EXPECT_EQ(function_of(R"(,"parameters":null,"description":"d")"), filled + R"(,"description":"d"})")
      << "in its place";
  for (const std::string other :
       {R"({"type":"object","additionalProperties":false,"properties":{"a":{}}})", R"({"anyOf":[{"type":"object"}]})",
        R"({"$ref":"#/$defs/a"})", R"({"type":["object","null"]})"}) {
    EXPECT_EQ(function_of(R"(,"parameters":)" + other), R"({"name":"f","parameters":)" + other + "}") << "as it was";
  }
}

TEST(ChatTools, NoneHidesTheToolsFromTheTemplate) {
  EXPECT_THAT(
      parsed(with(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")")).conversation.tools,
      IsEmpty());
}

TEST(ChatTools, WithoutToolsTheHarmlessChoicesAreFine) {
  for (const std::string choice : {R"("none")", R"("auto")", "null"}) {
    EXPECT_THAT(parsed(with(R"("parallel_tool_calls":false,"tools":[],"tool_choice":)" + choice)).conversation.tools,
                IsEmpty());
  }
}

TEST(ChatTools, OneCallAtATimeCanBeWanted) {
  const std::string tool = R"("tools":[{"function":{"name":"f"}}])";
  EXPECT_TRUE(parsed(with(tool)).conversation.parallel_tool_calls);
  EXPECT_TRUE(parsed(with(tool + R"(,"parallel_tool_calls":true)")).conversation.parallel_tool_calls);
  EXPECT_FALSE(parsed(with(tool + R"(,"parallel_tool_calls":false)")).conversation.parallel_tool_calls);
}

TEST(RefusedConversation, NamesTheMessageAndItsField) {
  expect_all_refused(
      {{R"({"messages":["hi"]})", "'messages[0]': expected an object, got string", "messages[0]"},
       {R"({"messages":[{"content":"x"}]})", "'messages[0].role' is required", "messages[0].role"},
       {R"({"messages":[{"role":1,"content":"x"}]})", "'messages[0].role': expected a string, got number 1",
        "messages[0].role"},
       {R"({"messages":[{"role":"bot","content":"x"}]})",
        "'messages[0].role': expected one of system, developer, user, assistant, tool, got 'bot'", "messages[0].role"},
       {R"({"messages":[{"role":"user","content":"a"},{"role":"user"}]})", "'messages[1].content' is required",
        "messages[1].content"},
       {R"({"messages":[{"role":"user","content":null}]})", "'messages[0].content' is required", "messages[0].content"},
       {R"({"messages":[{"role":"user","content":5}]})",
        "'messages[0].content': expected a string or an array of parts, got number", "messages[0].content"},
       {R"({"messages":[{"role":"user","content":["x"]}]})", "'messages[0].content[0]': expected an object, got string",
        "messages[0].content[0]"},
       {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", "'messages[0].content[0].type' is required",
        "messages[0].content[0].type"},
       {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "'messages[0].content[0].text' is required",
        "messages[0].content[0].text"},
       {R"({"messages":[{"role":"user","content":[{"type":"poem","text":"x"}]}]})",
        "'messages[0].content[0].type': expected 'text', got 'poem'", "messages[0].content[0].type"},
       {R"({"messages":[{"role":"tool","content":"42"}]})", "'messages[0].tool_call_id' is required",
        "messages[0].tool_call_id"},
       {R"({"messages":[{"role":"assistant","content":"x","function_call":{"name":"f"}}]})",
        "'messages[0].function_call' is not supported yet by this server", "messages[0].function_call",
        ErrorCode::kUnsupported},
       {R"({"messages":[{"role":"assistant","audio":{"id":"a"}}]})",
        "'messages[0].audio' is not supported yet by this server", "messages[0].audio", ErrorCode::kUnsupported}});
}

BadInput media_part(const std::string& type) {
  return {R"({"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":")" + type +
              R"(","image_url":{"url":"data:image/png;base64,AA=="}}]}]})",
          "'messages[0].content[1]': this model takes text only, got a part of type '" + type + "'",
          "messages[0].content[1]", ErrorCode::kUnsupported};
}
TEST(RefusedConversation, SaysThatMediaPartsAreNotRead) {
  expect_all_refused({media_part("image_url"), media_part("image"), media_part("input_image"),
                      media_part("input_audio"), media_part("audio_url"), media_part("video_url"), media_part("file")});
}

BadInput tool_call(const std::string& call, const std::string& problem, const std::string& path) {
  return {R"({"messages":[{"role":"assistant","tool_calls":[)" + call + "]}]}",
          "'messages[0].tool_calls[0]" + path + "'" + problem, "messages[0].tool_calls[0]" + path};
}
TEST(RefusedConversation, NamesTheToolCallAndItsField) {
  expect_all_refused(
      {tool_call("5", ": expected an object, got number", ""),
       tool_call(R"({"type":"custom"})", ": expected 'function', got 'custom'", ".type"),
       tool_call(R"({"id":7,"function":{"name":"f"}})", ": expected a string, got number 7", ".id"),
       tool_call(R"({"id":"c"})", " is required", ".function"),
       tool_call(R"({"function":{}})", " is required", ".function.name"),
       tool_call(R"({"function":{"name":"f","arguments":"{\"a\":"}})", ": malformed JSON at byte 5: incomplete JSON",
                 ".function.arguments"),
       tool_call(R"({"function":{"name":"f","arguments":"[1]"}})",
                 ": expected a string that holds a JSON object, got one that holds array", ".function.arguments"),
       tool_call(R"({"function":{"name":"f","arguments":[1]}})",
                 ": expected a string that holds a JSON object, got array", ".function.arguments"),
       {R"({"messages":[{"role":"user","content":"x","tool_calls":[{}]}]})",
        "'messages[0].tool_calls': allowed in assistant messages only, got one of role 'user'",
        "messages[0].tool_calls"}});
}

// Whatever a client sends, a message about it stays short: it goes into logs and over the network.
TEST(RefusedConversation, NoMessageRepeatsAHugeValue) {
  const std::string huge(100'000, 'x');
  const auto message = [](const std::string& fields) { return R"({"messages":[{"role":"user",)" + fields + "}]}"; };
  for (const std::string& body :
       {R"({"messages":")" + huge + R"("})", R"({"messages":[{"role":")" + huge + R"(","content":"x"}]})",
        R"({"messages":[{"role":["x",")" + huge + R"("],"content":"x"}]})",
        message(R"("content":[{"type":")" + huge + R"("}])"), message(R"("content":[{"type":"image)" + huge + R"("}])"),
        R"({"messages":[{"role":"assistant","tool_calls":[{"type":")" + huge + R"("}]}]})",
        with(R"("tools":[{"type":")" + huge + R"("}])"), with(R"("tool_choice":")" + huge + '"'),
        with(R"("tool_choice":{"type":")" + huge + R"("})"),
        with(R"("tool_choice":{"type":"function","function":{"name":")" + huge + R"("}})"),
        with(R"("response_format":{"type":")" + huge + R"("})"), with(R"("logit_bias":{")" + huge + R"(":1})"),
        with(R"("temperature":")" + huge + '"'), with(R"("stop":[")" + huge + R"("])")}) {
    const auto refused = parse(body_of(body));
    ASSERT_FALSE(refused.has_value()) << body.substr(0, 100);
    EXPECT_LT(refused.error().message.size(), 300U) << body.substr(0, 100);
    EXPECT_LT(refused.error().param.size(), 100U) << body.substr(0, 100);
  }
}

constexpr std::string_view kTools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
const std::string kForce =
    R"('tool_choice': forcing a tool call is not supported yet by this server; use "auto" or "none")";
TEST(RefusedConversation, ChecksToolsAndWhatIsWantedOfThem) {
  expect_all_refused(
      {{with(R"("tool_choice":"required")"), "'tool_choice': \"required\" needs 'tools'", "tool_choice"},
       {with(R"("tools":[],"tool_choice":"required")"), "'tool_choice': \"required\" needs 'tools'", "tool_choice"},
       {with(R"("tool_choice":{"type":"function","function":{"name":"f"}})"),
        "'tool_choice': there is no tool 'f' in 'tools'", "tool_choice"},
       {with(std::string(kTools) + R"("tool_choice":{"type":"function","function":{"name":"g"}})"),
        "'tool_choice': there is no tool 'g' in 'tools'", "tool_choice"},
       {with(std::string(kTools) + R"("tool_choice":"required")"), kForce, "tool_choice", ErrorCode::kUnsupported},
       {with(std::string(kTools) + R"("tool_choice":{"type":"function","function":{"name":"f"}})"), kForce,
        "tool_choice", ErrorCode::kUnsupported},
       {with(R"("tool_choice":"any")"), "'tool_choice': expected none, auto, required or an object, got 'any'",
        "tool_choice"},
       {with(R"("tool_choice":5)"), "'tool_choice': expected a string or an object, got number", "tool_choice"},
       {with(R"("tool_choice":{"type":"allowed_tools"})"),
        "'tool_choice.type': expected 'function', got 'allowed_tools'", "tool_choice.type"},
       {with(R"("tool_choice":{"type":"function"})"), "'tool_choice.function' is required", "tool_choice.function"},
       {with(std::string(kTools) + R"("parallel_tool_calls":1)"),
        "'parallel_tool_calls': expected a boolean, got number 1", "parallel_tool_calls"},
       {with(R"("tools":{})"), "'tools': expected an array, got object {}", "tools"},
       {with(R"("tools":[1])"), "'tools[0]': expected an object, got number", "tools[0]"},
       {with(R"("tools":[{"type":"web_search"}])"), "'tools[0].type': expected 'function', got 'web_search'",
        "tools[0].type"},
       {with(R"("tools":[{"type":"function"}])"), "'tools[0].function' is required", "tools[0].function"},
       {with(R"("tools":[{"type":"function","function":{}}])"), "'tools[0].function.name' is required",
        "tools[0].function.name"},
       {with(R"("tools":[{"type":"function","function":{"name":""}}])"),
        "'tools[0].function.name': expected a string that is not empty", "tools[0].function.name"},
       {with(R"("tools":[{"function":{"name":"f","parameters":[]}}])"),
        "'tools[0].function.parameters': expected an object, got array []", "tools[0].function.parameters"},
       {with(R"("tools":[{"function":{"name":"f","strict":true}}])"),
        "'tools[0].function.strict': this server cannot hold the calls of 'f' to their schema yet; send false or leave "
        "it out, and the model is shown the schema all the same",
        "tools[0].function.strict", ErrorCode::kUnsupported}});
}

}  // namespace
}  // namespace redpoll::api::openai
